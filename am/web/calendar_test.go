package web

import (
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	ical "github.com/arran4/golang-ical"

	"patchbay/am/client"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// calendarPages are the pages of a site at midnight of 2030-01-01 with a calendar.
func calendarPages(t *testing.T, c service.Calendar) *Pages {
	t.Helper()
	p, err := New(Config{
		Site: "example.org", URL: "http://127.0.0.1:8", Now: func() time.Time { return hour(0) }, Log: slog.New(slog.DiscardHandler),
		AheadMax: 30 * 24 * time.Hour, Lease: 8 * time.Hour, LongestLease: 7 * 24 * time.Hour, Free: func() (service.Free, error) { return service.Free{}, nil },
		Calendar: func(from, until time.Time, mine []urn.URN) (*service.Calendar, error) {
			x := c
			x.At, x.From, x.Until = hour(0), from, until
			return &x, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hour(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }

func open(p *Pages, path string) (int, string) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8"+path, nil))
	return w.Code, w.Body.String()
}

func TestCalendarRange(t *testing.T) {
	p := calendarPages(t, service.Calendar{})
	for query, want := range map[string]string{
		"":                              "2030-01-01T00 8",
		"from=2030-01-08":               "2030-01-08T00 8",
		"days=1":                        "2030-01-01T00 1",
		"days=31&from=2030-01-08T05:00": "2030-01-08T05 31",
		"from=2030-01-01T00:30:00":      "2030-01-01T00 8",
		"days=0":                        "1 to 31", "days=32": "1 to 31", "days=x": "1 to 31", "days=99999999999999999999": "1 to 31",
		"from=2029-12-31T22:00": "no time before today",
		"from=2039-12-31T22:00": "none after",
		"from=%3Cscript%3E":     "is not a time",
	} {
		q := &request{Pages: p, r: httptest.NewRequest(http.MethodGet, "/ui/calendar?"+query, nil), now: hour(9)}
		from, days, err := q.calendarRange(q.today())
		got := fmt.Sprint(from.Format("2006-01-02T15 "), days)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	if code, text := open(p, "/ui/calendar?from=%3Cscript%3E"); code != http.StatusBadRequest || strings.Contains(text, "<script>") {
		t.Errorf("a wrong time: %d\n%s", code, text)
	}
}

var hrefs = regexp.MustCompile(`<a href="(/ui/start[^"]*)" aria-label="([^"]*)"`)

// TestCalendarGaps checks which free times of a component are links, and what they fill in.
func TestCalendarGaps(t *testing.T) {
	window := func(kind string, from, until int) service.CalendarWindow {
		w := service.CalendarWindow{Kind: kind, Until: hour(until)}
		if from > 0 {
			w.From = hour(from)
		}
		return w
	}
	odd := window("held", 0, 3)
	odd.Until = odd.Until.Add(29 * time.Second)
	const day = "2030-01-01T"
	for _, tt := range []struct {
		rule     string
		windows  []service.CalendarWindow
		lockdown string
		want     string // begin and end of each link
	}{
		{"wholly free: now or later, for the usual lease", []service.CalendarWindow{window("ahead", 14, 24*8)}, "", " , " + day + "06:00 , " + day + "12:00 " + day + "14:00"},
		{"between two windows", []service.CalendarWindow{window("held", 0, 3), window("ahead", 5, 24*8)}, "", day + "03:00 " + day + "05:00"},
		{"a free time that lasts beyond the picture", []service.CalendarWindow{window("held", 0, 24*8-3)}, "", "2030-01-08T21:00 "},
		{"before a window", []service.CalendarWindow{window("ahead", 5, 24*8)}, "", " " + day + "05:00"},
		{"whole minutes", []service.CalendarWindow{odd, window("ahead", 5, 24*8)}, "", day + "03:01 " + day + "05:00"},
		{"windows that touch", []service.CalendarWindow{window("held", 0, 3), window("ahead", 3, 24*8)}, "", ""},
		{"no known end", []service.CalendarWindow{{Kind: "held"}}, "", ""},
		{"lockdown", nil, "away", ""},
	} {
		c := service.Calendar{Lockdown: tt.lockdown, Types: []service.CalendarType{{Name: "pc", Hardware: []string{"small"}, Kind: "exclusive", Total: 1, Components: []service.CalendarComponent{{Name: "pc1", Windows: tt.windows}}}}}
		code, text := open(calendarPages(t, c), "/ui/calendar")
		var got []string
		for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
			q := httptest.NewRequest(http.MethodGet, strings.ReplaceAll(m[1], "&amp;", "&"), nil).URL.Query()
			got = append(got, q.Get("begin")+" "+q.Get("end"))
			if q.Get("type") != "pc" || q.Get("hardware") != "small" {
				t.Errorf("%s: %s", tt.rule, m[1])
			}
		}
		if code != http.StatusOK || strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %d %q, want %q", tt.rule, code, got, tt.want)
		}
	}
}

// TestCalendarIsEscaped checks that hostile names stay texts, and that pages of large sites have a limited size.
func TestCalendarIsEscaped(t *testing.T) {
	const hostile = `</svg><script>alert(1)</script>"onload="x`
	many := service.CalendarType{Name: hostile, Hardware: []string{hostile}, Kind: "exclusive", Total: 10_000}
	for i := range 10_000 {
		k := service.CalendarComponent{Name: fmt.Sprint(hostile, i)}
		for j := range 2000 {
			k.Windows = append(k.Windows, service.CalendarWindow{Kind: "ahead", From: hour(1).Add(time.Duration(2*j) * time.Second), Until: hour(1).Add(time.Duration(2*j+1) * time.Second)})
			if i > 0 {
				break
			}
		}
		many.Components = append(many.Components, k)
	}
	for i := range 20_000 {
		many.Free = append(many.Free, service.FreeAt{From: hour(0).Add(time.Duration(i) * time.Second), Free: i % 2})
	}
	p := calendarPages(t, service.Calendar{Types: []service.CalendarType{many}})
	for path, rows := range map[string]int{"/ui/calendar": 0, "/ui/calendar?open=1": 32, "/ui/calendar?open=1&first=9970": 30, "/ui/calendar?open=1&first=-3": 32, "/ui/calendar?open=x&first=10000": 0} {
		code, text := open(p, path)
		if n := strings.Count(text, `scope="row"`) - 1; code != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, `"onload`) || n != rows || len(text) > 800_000 {
			t.Errorf("%s: %d, %d rows of %d, %d bytes", path, code, n, rows, len(text))
		}
		d := xml.NewDecoder(strings.NewReader(text[strings.Index(text, "<section") : strings.LastIndex(text, "</section>")+len("</section>")]))
		d.Strict = false
		d.Entity = xml.HTMLEntity
		for _, err := d.Token(); err != io.EOF; _, err = d.Token() {
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
}

// TestCalendarOfManyTypes checks that the page shows the components of only some types of a site with many.
func TestCalendarOfManyTypes(t *testing.T) {
	var c service.Calendar
	for range 50 {
		c.Types = append(c.Types, service.CalendarType{Name: "pc", Kind: "exclusive", Total: 24, Components: make([]service.CalendarComponent, 24)})
	}
	for path, rows := range map[string]int{"/ui/calendar": 96, "/ui/calendar?open=50": 120} {
		if code, text := open(calendarPages(t, c), path); code != http.StatusOK || strings.Count(text, `scope="row"`)-50 != rows {
			t.Errorf("%s: %d, %d rows of %d", path, code, strings.Count(text, `scope="row"`)-50, rows)
		}
	}
}

// TestFeedIsEscaped parses a feed with hostile names again.
func TestFeedIsEscaped(t *testing.T) {
	const hostile = "a\r\nEND:VEVENT\r\nATTENDEE:mailto:alice@example.org\r\nx;y,z\\"
	p := calendarPages(t, service.Calendar{})
	q := &request{Pages: p, now: hour(2)}
	feed := func(end int) (*ical.Calendar, string) {
		c := ical.NewCalendarFor("Patchbay")
		u := urn.MustParse("urn:publicid:IDN+example.org:lab1+slice+course")
		v := client.Sliver{ClientID: hostile, Allocation: "geni_allocated", Begins: hour(3), Ends: hour(end), Expires: hour(end)}
		later := v
		later.Begins = hour(30)
		e := experimentRow{sliceRecord: sliceRecord{URN: u, Project: urn.URN{Name: "lab1"}}, Slivers: []client.Sliver{v, v, later}}
		if err := q.addEvents(c, e, hour(1)); err != nil {
			t.Fatal(err)
		}
		text := c.Serialize(ical.WithNewLine("\r\n"))
		again, err := ical.ParseCalendar(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		return again, text
	}
	first, text := feed(40)
	list := first.Events()
	if len(list) != 2 || strings.Contains(text, "\r\nATTENDEE") || list[0].GetProperty(ical.ComponentPropertySummary).Value != "lab1 / course" || list[0].GetProperty(ical.ComponentPropertyAttendee) != nil {
		t.Fatalf("the feed:\n%s", text)
	}
	begin, err := list[0].GetStartAt()
	if end, failed := list[0].GetEndAt(); err != nil || failed != nil || !begin.Equal(hour(3)) || !end.Equal(hour(40)) {
		t.Errorf("an event from %s until %s: %v %v", begin, end, err, failed)
	}
	if made, changed := list[0].GetProperty(ical.ComponentPropertyDtstamp), list[0].GetProperty(ical.ComponentPropertyLastModified); made.Value != "20300101T020000Z" || changed.Value != "20300101T010000Z" {
		t.Errorf("an event of %s, changed at %s", made.Value, changed.Value)
	}
	moved, _ := feed(41)
	if list[0].Id() != moved.Events()[0].Id() || list[0].Id() == list[1].Id() {
		t.Errorf("the UIDs %s and %s; after the end has moved %s", list[0].Id(), list[1].Id(), moved.Events()[0].Id())
	}
}

// TestStartWindow checks the times of the form that starts an experiment, and what the buttons of a refusal fill in.
func TestStartWindow(t *testing.T) {
	const day = "2030-01-01T"
	for form, want := range map[string]string{
		"":                       "- -",
		"begin=" + day + "05:00": "05:00 -",
		"begin=" + day + "05:00&end=" + day + "07:00":                           "05:00 07:00",
		"end=" + day + "07:00":                                                  "- 07:00",
		"begin=" + day + "05:00&end=" + day + "05:00":                           "is not after the begin",
		"end=2029-12-31T23:59":                                                  "The end, 31 Dec 2029 23:59 UTC, is past",
		"begin=2029-12-31T22:00&end=2029-12-31T21:00":                           "The begin, 31 Dec 2029 22:00 UTC, is past",
		"begin=2029-12-31T22:00":                                                "is past",
		"begin=2029-12-31T23:30":                                                "23:30 -", // the form was open for a while
		"life=1h&end=" + day + "07:00":                                          "both an end and how long",
		"life=4h&begin=" + day + "05:00&last=" + day + "06:10":                  "05:00 06:10",
		"begin=tomorrow":                                                        `"tomorrow" is not a time`,
		"begin=" + day + "05:00&end=" + day + "07:00&first=" + day + "09:30:20": "09:30 11:30",
		"end=" + day + "07:00&first=" + day + "09:30:20":                        "09:30 16:30",
		"first=" + day + "09:30":                                                "09:30 -",
		"begin=" + day + "05:00&end=" + day + "07:00&last=" + day + "06:10":     "05:00 06:10",
	} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		var f startForm
		got := f.readWindow(values.Get, &request{now: hour(0)})
		if got == "" {
			text := func(t time.Time) string {
				if t.IsZero() {
					return "-"
				}
				return t.Format("15:04")
			}
			got = text(f.Begin) + " " + text(f.End)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", form, got, want)
		}
	}
}

// TestFillFromCalendar checks the request for what a link of the calendar names.
func TestFillFromCalendar(t *testing.T) {
	p := calendarPages(t, service.Calendar{})
	p.Free = func() (service.Free, error) {
		return service.Free{Types: []service.FreeType{
			{Name: "raw-pc", Hardware: []string{"small", "pc"}, Kind: "exclusive", Total: 12}, {Name: "raw-pc", Hardware: []string{"large", "pc"}, Kind: "exclusive", Total: 3},
			{Name: "vm", Kind: "shared", Total: 1000},
		}}, nil
	}
	for query, want := range map[string]string{
		"type=raw-pc&hardware=large":                        "1 large true",
		"type=raw-pc&hardware=large&count=4":                "3 large true",
		"type=raw-pc&hardware=small&count=4":                "4 small true",
		"type=vm&count=999999":                              "100  false",
		"type=vm&count=-1":                                  "1  false",
		"type=vm&count=x":                                   "1  false",
		"type=raw-pc&hardware=%22/%3E":                      "example",
		"type=bus&count=2":                                  "example",
		"begin=2030-01-01T05:00&end=tomorrow&type=&count=2": "example",
	} {
		f, got := startForm{Text: "example"}, "example"
		if err := f.fillFromCalendar(&request{Pages: p, r: httptest.NewRequest(http.MethodGet, "/ui/start?"+query, nil)}); err != nil {
			t.Fatal(err)
		}
		if f.Text != got {
			r, err := rspec.ParseRequest([]byte(f.Text), rspec.ReadOptions{})
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			got = fmt.Sprint(len(r.Nodes), " ", r.Nodes[0].HardwareType, " ", *r.Nodes[0].Exclusive)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
