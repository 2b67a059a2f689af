package api

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
)

func TestParseTime(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"as jFed sends it", "2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"},
		{"as omni sends it", "2030-01-31T12:00:00+00:00", "2030-01-31T12:00:00Z"},
		{"omni without offset means UTC", "2030-01-31T12:00:00", "2030-01-31T12:00:00Z"},
		{"blank between date and time", "2030-01-31 12:00:00", "2030-01-31T12:00:00Z"},
		{"lower case", "2030-01-31t12:00:00z", "2030-01-31T12:00:00Z"},
		{"an eastern offset is earlier in UTC", "2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z"},
		{"a western offset is later in UTC", "2030-01-31T23:30:00-0130", "2030-02-01T01:00:00Z"},
		{"fractions are cut off", "2030-01-31T12:00:00.999999999999Z", "2030-01-31T12:00:00Z"},
		{"year 9999", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
		{"as XML-RPC has it", "20300131T12:00:00", "2030-01-31T12:00:00Z"},
		{"as XML-RPC has it, with Z", "20300131T12:00:00Z", "2030-01-31T12:00:00Z"},
		{"as XML-RPC has it, with an offset", "20300131T12:00:00+0200", "2030-01-31T10:00:00Z"},
		{"half of the hyphens", "203001-31T12:00:00", ""},
		{"the other half", "2030-0131T12:00:00", ""},
		{"no colons", "20300131T120000", ""},
		{"date alone", "2030-01-31", ""},
		{"no such month", "2030-13-01T00:00:00Z", ""},
		{"no such day", "2030-02-30T00:00:00Z", ""},
		{"leap second", "2030-06-30T23:59:60Z", ""},
		{"year 0001", "0001-01-01T00:00:00Z", ""},
		{"trailing blank", "2030-01-31T12:00:00Z ", ""},
		{"empty", "", ""},
		{"number", "1893456000", ""},
		{"beyond year 9999 by its offset", "9999-12-31T23:59:59-01:00", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := parseTime(tt.in)
			if (err == nil) != (tt.want != "") || err == nil && FormatTime(got) != tt.want {
				t.Errorf("parseTime(%q) = %v, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("2030-01-31T12:00:00+01:00")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseTime(s)
		if err != nil {
			return
		}
		if again, err := parseTime(FormatTime(m)); err != nil || !again.Equal(m) {
			t.Fatalf("%q became %v, then %v, %v", s, m, again, err)
		}
	})
}

// TestTimesInTheFormOfXMLRPCAreTaken renews with the two XML-RPC forms of a time: the text, which
// Emulab's renewsliver.py sends, and the type, which GENI's gcf-test.py sends.
func TestTimesInTheFormOfXMLRPCAreTaken(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 80h
		alice Allocate s1 a
		alice Provision s1
	`)
	at := began.Add(26 * time.Hour)
	for form, value := range map[string]xmlrpc.Value{"text": at.Format("20060102T15:04:05"), "text with Z": at.Format("20060102T15:04:05Z"), "type": at} {
		for version, method := range map[int]string{Version3: "Renew", Version2: "RenewSliver"} {
			// Our encoder never writes dateTime, so the test inserts it.
			target := xmlrpc.Value(strs(w.urns["s1"]))
			if version == Version2 {
				target = w.urns["s1"]
			}
			shown := creds(w.creds["s1"])
			if version == Version2 {
				shown = strs(w.creds["s1"])
			}
			sent, dated := value, false
			if at, ok := value.(time.Time); ok {
				sent, dated = "WHEN "+at.Format("20060102T15:04:05"), true
			}
			body := string(callBody(t, method, target, shown, sent, xmlrpc.Struct{}))
			if dated {
				body = regexp.MustCompile(`<value>(<string>)?WHEN ([^<]*)(</string>)?</value>`).ReplaceAllString(body, "<value><dateTime.iso8601>$2</dateTime.iso8601></value>")
			}
			answer := string(w.api.Serve(t.Context(), version, Request{Chain: w.who("alice").chain, Body: []byte(body)}).Body)
			if !strings.Contains(answer, "<int>0</int>") {
				t.Errorf("%s, %s: %s", method, form, answer)
			}
			w.play("alice Status s1 -> @begin+26h")
			w.play("alice Renew s1 begin+25h")
		}
	}
}

// TestOptionsAsAnEmptyArrayAreNoOptions sends the options as an empty array, as Perl and PHP
// programs such as Emulab's sliverstatus.py do.
func TestOptionsAsAnEmptyArrayAreNoOptions(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 80h
		alice CreateSliver s1 a
	`)
	for options, want := range map[string]string{"empty": "<int>0</int>", "not empty": "argument options: it must be a struct"} {
		list := []xmlrpc.Value{}
		if options != "empty" {
			list = append(list, "geni_best_effort")
		}
		for version, params := range map[int][]xmlrpc.Value{
			Version2: {w.urns["s1"], strs(w.creds["s1"]), list},
			Version3: {strs(w.urns["s1"]), creds(w.creds["s1"]), list},
		} {
			method := map[int]string{Version2: "SliverStatus", Version3: "Status"}[version]
			answer := string(w.api.Serve(t.Context(), version, Request{Chain: w.who("alice").chain, Body: callBody(t, method, params...)}).Body)
			if !strings.Contains(answer, want) {
				t.Errorf("%s, options %s: %s", method, options, answer)
			}
		}
	}
}

func TestExpirationTimeIsAnyText(t *testing.T) {
	want := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for rule, v := range map[string]any{
		"string": "2030-01-31T12:00:00Z", "base64": []byte("2030-01-31T12:00:00Z"), "with white space around": " 2030-01-31T12:00:00Z\n", "a time": want,
	} {
		c := new(call)
		if err := c.readTime(v); err != nil || !c.until.Equal(want) {
			t.Errorf("%s: %v, %v", rule, c.until, err)
		}
	}
	for _, v := range []any{1, true, "", " ", []any{}, []byte("tomorrow"), time.Time{}} {
		if err := new(call).readTime(v); err == nil {
			t.Errorf("%v is accepted as a time", v)
		}
	}
}
