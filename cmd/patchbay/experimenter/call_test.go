package experimenter

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/display"
)

// credentialFor returns an unsigned credential for a target.
func credentialFor(kind, target string) string {
	return `<signed-credential><credential xml:id="ref0"><type>privilege</type>
<owner_urn>urn:publicid:IDN+a.example.org+user+alice</owner_urn>
<target_urn>urn:publicid:IDN+a.example.org+` + kind + "+" + target + `</target_urn><expires>2030-01-02T03:04:05Z</expires></credential></signed-credential>`
}

// asGiven is the compilation of an RSpec.
func asGiven(_ string, text []byte) ([]byte, error) { return text, nil }

func TestCallParametersByMethod(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("alice-cert.pem", "-----BEGIN CERTIFICATE-----\n")
	write("alice-key.pem", "-----BEGIN RSA PRIVATE KEY-----\n")
	userCred := credentialFor("user", "alice")
	write("alice-usercred.xml", userCred)
	write("id_ed25519.pub", "ssh-ed25519 AAAA alice\n")
	sliceCred := credentialFor("slice", "s1")
	write("slices/s1-cred.xml", sliceCred)
	request := write("request.xml", "<rspec/>")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	const slice = "urn:publicid:IDN+a.example.org+slice+s1"
	array := func(v ...xmlrpc.Value) []xmlrpc.Value { return append([]xmlrpc.Value{}, v...) }
	cred := func(text string) []xmlrpc.Value {
		return array(xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: "3"}, {Name: "geni_value", Value: text}})
	}
	users := array(xmlrpc.Struct{{Name: "urn", Value: "urn:publicid:IDN+a.example.org+user+alice"}, {Name: "keys", Value: array("ssh-ed25519 AAAA alice")}})
	format := xmlrpc.Member{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}}
	none := xmlrpc.Struct{}

	for _, c := range []struct {
		name    string
		api     int
		line    string // method and arguments
		options []string
		want    []xmlrpc.Value
	}{
		{"GetVersion", 3, "GetVersion", nil, array(none)},
		{"ListResourcesNeedsAFormat", 3, "ListResources", []string{"geni_available=true"},
			array(append(cred(userCred), cred(sliceCred)...), xmlrpc.Struct{{Name: "geni_available", Value: true}, format})},
		{"GivenFormatStays", 3, "Describe", []string{`geni_rspec_version={"type":"x","version":2}`},
			array(array(slice), cred(sliceCred), xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "x"}, {Name: "version", Value: 2}}}})},
		{"AllocateReadsTheRequest", 3, "Allocate " + request, nil, array(slice, cred(sliceCred), "<rspec/>", none)},
		{"ProvisionBringsKeys", 3, "Provision", nil, array(array(slice), cred(sliceCred), xmlrpc.Struct{{Name: "geni_users", Value: users}, format})},
		{"RenewFromNow", 3, "Renew 2h", nil, array(array(slice), cred(sliceCred), "2026-01-02T05:04:05Z", none)},
		{"RenewUntilTheEndOfADay", 3, "Renew 2026-12-24", nil, array(array(slice), cred(sliceCred), "2026-12-24T23:59:59Z", none)},
		{"ActionIsCompleted", 3, "PerformOperationalAction start", nil, array(array(slice), cred(sliceCred), "geni_start", none)},
		{"ActionOfPatchbay", 3, "PerformOperationalAction patchbay_setup", nil, array(array(slice), cred(sliceCred), "patchbay_setup", none)},
		{"UpdateUsersBringsKeys", 3, "PerformOperationalAction update_users", nil,
			array(array(slice), cred(sliceCred), "geni_update_users", xmlrpc.Struct{{Name: "geni_users", Value: users}})},
		{"DeleteOneSliver", 3, "Delete urn:a", []string{"geni_best_effort=1"}, array(array("urn:a"), cred(sliceCred), xmlrpc.Struct{{Name: "geni_best_effort", Value: 1}})},
		{"Version2SendsTexts", 2, "SliverStatus", nil, array(slice, array(sliceCred), none)},
		{"Version2CreatesWithUsers", 2, "CreateSliver " + request, nil, array(slice, array(sliceCred), "<rspec/>", users, none)},
		{"Version2ListsTheSlice", 2, "ListResources", nil, array(array(userCred, sliceCred), xmlrpc.Struct{format, {Name: "geni_slice_urn", Value: slice}})},
		{"UnknownMethodTakesAnything", 3, `Cancel text 5 true ["a",1.5] {"b":{"c":"d"}}`, []string{"o=1"},
			array("text", 5, true, array("a", 1.5), xmlrpc.Struct{{Name: "b", Value: xmlrpc.Struct{{Name: "c", Value: "d"}}}}, xmlrpc.Struct{{Name: "o", Value: 1}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			me, err := session.ReadCaller([]string{dir}, "s1")
			if err != nil {
				t.Fatal(err)
			}
			f := strings.Fields(c.line)
			r := callRequest{api: c.api, method: f[0], args: f[1:], options: c.options, me: me, now: now, compile: asGiven}
			got, err := r.params()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}

	for _, c := range []struct{ line, start, end, want string }{
		{"Allocate " + request, "2026-01-03 09:00", "+8h", "2026-01-03T09:00:00Z 2026-01-03T17:00:00Z"},
		{"ListResources", "tomorrow 9:00", "", "2026-01-03T09:00:00Z <nil>"},
		{"Renew 2h", "", "17:00", "<nil> 2026-01-02T17:00:00Z"},
		{"Renew 2h", "+2h", "", "Renew has no --start"},
		{"Status", "", "+2h", "Status has no --end"},
		{"Allocate " + request, "soon", "", "--start: "},
	} {
		me, err := session.ReadCaller([]string{dir}, "s1")
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(c.line)
		r := callRequest{api: 3, method: f[0], args: f[1:], start: c.start, end: c.end, me: me, now: now, compile: asGiven}
		params, err := r.params()
		got := fmt.Sprint(err)
		if err == nil {
			options := params[len(params)-1].(xmlrpc.Struct)
			start, _ := options.Get("geni_start_time")
			end, _ := options.Get("geni_end_time")
			got = fmt.Sprint(start, " ", end)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s from %q until %q: %s, want %s", c.line, c.start, c.end, got, c.want)
		}
	}

	for _, c := range []struct{ name, slice, line, option, want string }{
		{"SliceMissing", "", "Status", "", "the slice is missing"},
		{"RequestMissing", "s1", "Allocate", "", "the file with the request is missing"},
		{"RequestUnreadable", "s1", "Allocate " + dir + "/nothing", "", "cannot read the request"},
		{"TimeIsNonsense", "s1", "Renew soon", "", "is not a time"},
		{"TooManyArguments", "s1", "Shutdown now", "", `"now" is one argument too many`},
		{"OptionWithoutValue", "s1", "Status", "geni_x", "is not NAME=VALUE"},
		{"OptionIsBrokenJSON", "s1", "Status", "x={", "looks like JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			me, err := session.ReadCaller([]string{dir}, c.slice)
			if err != nil {
				t.Fatal(err)
			}
			f := strings.Fields(c.line)
			r := callRequest{api: 3, method: f[0], args: f[1:], me: me, now: now, compile: asGiven}
			if c.option != "" {
				r.options = []string{c.option}
			}
			if _, err = r.params(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAnswersArePrintedAsTables(t *testing.T) {
	sliver := xmlrpc.Struct{
		{Name: "geni_sliver_urn", Value: "urn:publicid:IDN+a+sliver+1"}, {Name: "geni_allocation_status", Value: "geni_allocated"},
		{Name: "geni_expires", Value: "2026-01-01T00:00:00Z"}, {Name: "geni_error", Value: ""},
	}
	told := xmlrpc.Struct{
		{Name: "geni_client_id", Value: "web"},
		{Name: "patchbay_interfaces", Value: []xmlrpc.Value{
			xmlrpc.Struct{{Name: "client_id", Value: "web:0"}, {Name: "link", Value: "lan"}, {Name: "mac", Value: "02:00:00:00:00:01"}, {Name: "emulator", Value: "tbf"}},
			xmlrpc.Struct{{Name: "client_id", Value: "web:1"}, {Name: "link", Value: ""}, {Name: "mac", Value: ""}, {Name: "emulator", Value: ""}},
		}},
		{Name: "patchbay_services", Value: []xmlrpc.Value{
			xmlrpc.Struct{{Name: "step", Value: 1}, {Name: "kind", Value: "install"}, {Name: "stage", Value: 0}, {Name: "what", Value: "http://h/a"}, {Name: "state", Value: "done"}, {Name: "began", Value: "2025-12-31T21:00:00Z"}, {Name: "ended", Value: "2025-12-31T21:01:30Z"}, {Name: "exit", Value: 0}, {Name: "message", Value: ""}, {Name: "output", Value: ""}},
			xmlrpc.Struct{{Name: "step", Value: 2}, {Name: "kind", Value: "execute"}, {Name: "stage", Value: 1}, {Name: "what", Value: "a\nb"}, {Name: "state", Value: "failed"}, {Name: "exit", Value: 7}, {Name: "message", Value: "no\tway"}, {Name: "output", Value: "one\n\x1b two"}},
		}},
	}
	for _, c := range []struct {
		name string
		v    xmlrpc.Value
		want string
	}{
		{"BareArrayIsATable", []xmlrpc.Value{sliver}, "NODE                         STATE      UNTIL\nurn:publicid:IDN+a+sliver+1  allocated  2026-01-01T00:00:00Z in 2h\n"},
		{"ServicesAndLinksAreTold", []xmlrpc.Value{append(sliver[:2:2], told...)}, "NODE  STATE\n" +
			"web   allocated\n\n" +
			"NODE  INTERFACE  LINK  MAC                EMULATOR\n" +
			"web   web:0      lan   02:00:00:00:00:01  tbf\n\n" +
			"NODE  STEP  STAGE  KIND     WHAT        STATE       TIME   MESSAGE\n" +
			"web   1     1      install  http://h/a  done        1m30s\n" +
			"web   2     2      execute  a b         failed (7)         no way\n\n" +
			"output of web, step 2:\n    one\n    \ufffd two\n"},
		{"DocumentIsLeftOut", xmlrpc.Struct{{Name: "geni_urn", Value: "u"}, {Name: "geni_rspec", Value: "<rspec/>"}}, "geni_urn: u\n"},
		{"URNOfTheSliceIsLeftOut", xmlrpc.Struct{{Name: "geni_urn", Value: "u"}, {Name: "geni_slivers", Value: []xmlrpc.Value{sliver}}}, "NODE                         STATE      UNTIL\nurn:publicid:IDN+a+sliver+1  allocated  2026-01-01T00:00:00Z in 2h\n"},
		{"Boolean", true, "true\n"},
		{"NothingIsSilent", "", ""},
		{"NestedValues", xmlrpc.Struct{{Name: "a", Value: []xmlrpc.Value{1, xmlrpc.Struct{{Name: "b", Value: "c"}}}}, {Name: "d", Value: xmlrpc.Struct{}}},
			"a:\n  - 1\n  -\n    b: c\nd: none\n"},
		{"TerminalIsNotObeyed", "a\x1b[2Jb\u009bc", "a\ufffd[2Jb\ufffdc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			a := readValue(c.v)
			a.now = time.Date(2025, 12, 31, 22, 0, 0, 0, time.UTC)
			a.print(&b)
			if d := cmp.Diff(c.want, b.String()); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// TestOutputOfStepsIsShort proves which steps show output, and how much.
func TestOutputOfStepsIsShort(t *testing.T) {
	step := func(n int, state, output string) xmlrpc.Value {
		return xmlrpc.Struct{{Name: "step", Value: n}, {Name: "kind", Value: "execute"}, {Name: "state", Value: state}, {Name: "output", Value: output}}
	}
	long := strings.Repeat("early\n", 3) + strings.Repeat("late\n", outputShown)
	slivers := []xmlrpc.Struct{{{Name: "geni_client_id", Value: "web"}, {Name: "patchbay_services", Value: []xmlrpc.Value{
		step(1, "done", "well\n"), step(2, "failed", long), step(3, "running", ""), step(4, "done", long),
	}}}}
	table := "\nNODE  STEP  KIND     STATE\nweb   1     execute  done\nweb   2     execute  failed\nweb   3     execute  running\nweb   4     execute  done\n"
	cut := func(n string) string {
		return "\noutput of web, step " + n + ", without the first 3 lines; nodes of the local testbed keep all of it in /var/log/patchbay/" + n + "-execute.log\n" +
			strings.Repeat("    late\n", outputShown)
	}
	for logs, want := range map[bool]string{
		false: table + cut("2") + "\n--logs shows the output of 2 other steps.\n",
		true:  table + "\noutput of web, step 1:\n    well\n" + cut("2") + cut("4"),
	} {
		var b bytes.Buffer
		answer{slivers: slivers, logs: logs}.printExtensions(&b)
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("--logs=%v (-want +got)\n%s", logs, d)
		}
	}
	var b bytes.Buffer
	answer{slivers: slivers, brief: true}.printExtensions(&b)
	if d := cmp.Diff("\nNODE  STEP  KIND     STATE\nweb   2     execute  failed\n"+cut("2"), b.String()); d != "" {
		t.Errorf("brief (-want +got)\n%s", d)
	}
}

func TestShellWords(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "": "''", "/a/b-c.d": "/a/b-c.d", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "https://h:1/am/3.0": "https://h:1/am/3.0",
	} {
		if got := display.ShellWord(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestDataURLsAreShortened(t *testing.T) {
	for what, want := range map[string]string{"data:application/gzip;base64,H4sI": "data:application/gzip;base64,…", "echo data:a,b": "echo data:a,b"} {
		if got := experiment.ShortData(what); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}
