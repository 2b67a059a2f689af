package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestNewEnd checks that an extension counts from the latest end, and never makes leases shorter.
func TestNewEnd(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 0, 30, 0, time.UTC)
	for _, tt := range []struct {
		form    string
		current time.Duration // from now
		want    string        // the end, or a part of the problem
	}{
		{"for=1h", time.Hour, "2030-01-02T05:00:30Z"},
		{"for=1d", -time.Hour, "2030-01-03T03:00:30Z"},
		{"until=2030-01-02T06:00", time.Hour, "2030-01-02T06:00:00Z"},
		{"until=2030-01-02T04:00", time.Hour, "2030-01-02T04:00:00Z"}, // the current end without its seconds
		{"until=2030-01-02T03:59", time.Hour, "The experiment lasts until 2 Jan 2030 04:00 UTC, which is later."},
		{"until=tomorrow", time.Hour, `"tomorrow" is not a time. Write one such as 2030-01-02T04:00, in UTC.`},
		{"for=0h", time.Hour, "Choose how much longer"},
		{"for=-1h", time.Hour, "Choose how much longer"},
		{"", time.Hour, "Choose how much longer"},
	} {
		form, err := url.ParseQuery(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/", nil)
		r.Form = form
		until, problem := (&request{r: r, now: now}).newEnd([]client.Sliver{{Expires: now.Add(tt.current)}})
		if got := problem; got == "" && display.Time(until) != tt.want || got != "" && !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s %q, want %s", tt.form, display.Time(until), problem, tt.want)
		}
	}
}

// TestWaitingMayEndEarlier checks that the end of an experiment that has not begun moves to an earlier time.
func TestWaitingMayEndEarlier(t *testing.T) {
	now := time.Now()
	v := client.Sliver{Allocation: "geni_allocated", Begins: now.Add(time.Hour), Ends: now.Add(9 * time.Hour), Expires: now.Add(9 * time.Hour)}
	r := httptest.NewRequest("POST", "/", nil)
	want := now.Add(3 * time.Hour).UTC().Truncate(time.Minute)
	r.Form = url.Values{"until": {want.Format(inputTime)}}
	for begun, isRefused := range map[time.Duration]bool{0: false, 2 * time.Hour: true} {
		end, problem := (&request{r: r, now: now.Add(begun)}).newEnd([]client.Sliver{v})
		if (problem != "") != isRefused || !isRefused && !end.Equal(want) {
			t.Errorf("%s later: %s %q", begun, end, problem)
		}
	}
	r.Form.Set("until", v.Begins.UTC().Format(inputTime))
	if _, problem := (&request{r: r, now: now}).newEnd([]client.Sliver{v}); !strings.Contains(problem, "after the begin") {
		t.Errorf("an end at the begin: %q", problem)
	}
}

// TestErrorText checks that texts of calls are in the words of the pages.
func TestErrorText(t *testing.T) {
	for said, want := range map[string]string{
		"12 SEARCHFAILED (no such slice): there is nothing": "there is nothing",
		"the end of sliver urn:publicid:IDN+example.org:a+sliver+1-2 cannot be 2030-01-01T00:00:00Z; nothing was changed: geni_best_effort=true changes the slivers that allow it": "the end of a node cannot be 2030-01-01T00:00:00Z; nothing was changed",
		"sliver urn:publicid:IDN+example.org+sliver+1, 2 nodes": "a node, 2 nodes",
	} {
		if got := errorText(fmt.Errorf("renew: %w", &am.Error{Msg: said})); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestMistakesAreAtTheirLines checks the lines of problems and of a refusal, and what the summary says.
func TestMistakesAreAtTheirLines(t *testing.T) {
	x := &checkBody{lines: []string{"<rspec>", "  <node/>", "</rspec>"}, Request: []byte("x"), Reason: "full"}
	if x.add([]rspec.Problem{{Line: 2, Msg: "odd"}, {Line: 9, Msg: "beyond"}}); x.Summary != "" {
		t.Errorf("after warnings: %q", x.Summary)
	}
	x.refuse("from line 2: nodes \"a\": 2 vms requested, 1 free\nline 3:4: wrong\nno place\n")
	var got []string
	for _, m := range x.Mistakes {
		got = append(got, fmt.Sprintf("%d %q %s %v", m.Line, m.Source, m.Text, m.IsWarning))
	}
	want := []string{
		`2 "<node/>" odd true`, `0 "" beyond true`, `2 "<node/>" nodes "a": 2 vms requested, 1 free false`, `3 "</rspec>" wrong false`, `0 "" no place false`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || x.Request != nil || x.Reason != "" || x.Summary != "It cannot be started as it is." {
		t.Errorf("got %q, %q", got, x.Summary)
	}
}

// TestChecksWaitForEachOther checks that a check waits while others use the processors, and not for a browser that has gone.
func TestChecksWaitForEachOther(t *testing.T) {
	q := &request{Pages: &Pages{checks: make(chan struct{}, 1)}, r: httptest.NewRequest("POST", "/", nil)}
	q.checks <- struct{}{}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q.r = q.r.WithContext(ctx)
	if _, err := q.examine("<rspec/>"); !errors.Is(err, context.Canceled) {
		t.Errorf("a check beside another: %v", err)
	}
}

// TestDoings checks the journal in words.
func TestDoings(t *testing.T) {
	alice, one, two := urn.MustParse("urn:publicid:IDN+example.org+user+alice"), urn.MustParse("urn:publicid:IDN+example.org+sliver+1"), urn.MustParse("urn:publicid:IDN+example.org+sliver+2")
	names := map[string]string{one.String(): "web"}
	for _, tt := range []struct {
		entry operate.Entry
		want  string
	}{
		{operate.Entry{Event: "geni_stop", Caller: alice, Slivers: []urn.URN{one}}, "alice stopped web"},
		{operate.Entry{Event: "Renew", Caller: alice, Slivers: []urn.URN{one, two}, Times: 3}, "alice set the end of 2 nodes (3 times)"},
		{operate.Entry{Event: "Delete", Operator: "root", Slivers: []urn.URN{two}}, "An operator ended 1 node"},
		{operate.Entry{Event: "lease over", Slivers: []urn.URN{two}}, "The site released 1 node, since the lease was over"},
		{operate.Entry{Event: "100% new", Slivers: []urn.URN{one}}, "The site 100% new of web"},
	} {
		if d := doingOf(tt.entry, names); d.Who+" "+d.What != tt.want || d.IsEnd() != strings.Contains("Delete lease over", tt.entry.Event) {
			t.Errorf("%s %s (end: %v), want %s", d.Who, d.What, d.IsEnd(), tt.want)
		}
	}
}

// TestJournalIsOfOneSlice checks that a slice does not show what happened in an earlier one of its name, which may have been
// somebody else's.
func TestJournalIsOfOneSlice(t *testing.T) {
	begin := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	entries := []operate.Entry{{At: begin, Event: "Allocate"}, {At: begin.Add(time.Hour), Event: "Delete"}}
	q := &request{r: httptest.NewRequest("GET", "/", nil), Pages: &Pages{Config: Config{Admin: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
		for _, e := range entries {
			if !e.At.Before(since) {
				json.NewEncoder(w).Encode(e)
			}
		}
	})}}}
	for _, tt := range []struct {
		created time.Time
		want    int
	}{{begin, 2}, {begin, 2}, {begin.Add(2 * time.Hour), 0}} {
		got, err := q.journalOf(sliceRecord{URN: urn.MustParse("urn:publicid:IDN+example.org+slice+lab"), Created: tt.created})
		if err != nil || len(got) != tt.want {
			t.Errorf("a slice since %s: %v %v, want %d entries", tt.created, got, err, tt.want)
		}
	}
}

// TestNoticesAreBounded checks that notices that nobody reads take little memory, however many sessions there are.
func TestNoticesAreBounded(t *testing.T) {
	p := &Pages{}
	for i := range 2 * maxCached {
		q := &request{Pages: p, r: httptest.NewRequest("GET", "/", nil), visitor: &authority.Visitor{ID: fmt.Sprint(i)}}
		q.redirect("/ui/mine", notice{true, strings.Repeat("x", 1<<10)}, notice{true, strings.Repeat("x", 1<<13)})
		if i == 2*maxCached-1 {
			if list := q.Notices(); len(list) != 2 || len(list[0].Text) != 1<<10 || len(list[1].Text) > 2*maxNotice {
				t.Errorf("%d notices", len(list))
			}
		}
	}
	if len(p.notices.by) > maxCached {
		t.Errorf("notices of %d sessions", len(p.notices.by))
	}
}

// TestSummaries checks texts about nodes and names.
func TestSummaries(t *testing.T) {
	sliver := func(state string) client.Sliver {
		return client.Sliver{Allocation: "geni_provisioned", Operational: "geni_" + state}
	}
	state, summary := summarize([]client.Sliver{sliver("ready"), sliver("failed"), sliver("ready")})
	of := func(s ...string) string { return fmt.Sprintf("%q", s) }
	empty, nothing := summarize(nil)
	for _, tt := range [][2]string{
		{of(state, summary), of("failed", "3 nodes: 1 failed, 2 ready")},
		{of(empty, nothing), of("no nodes", "")},
		{of(lastBytes("one\ntwo\nthree\n", 20), lastBytes("one\ntwo\nthree\n", 6), lastBytes("aéb", 2)), of("one\ntwo\nthree", "…\nthree", "…\nb")},
		{of(sliceName("dave_x"), sliceName("a_very_long_name_of_somebody")), of("dave-x", "a-very-long-name-of")},
		{of(keyRecord{Public: "ssh-ed25519 AAAA0123456789xy a b"}.Short(), keyRecord{Public: "odd"}.Short()), of("ssh-ed25519 …0123456789xy a b", "odd")},
		{fmt.Sprint(hasName([]string{"a", "pc1..pc4"}, "pc3"), hasName([]string{"a"}, "a"), hasName([]string{"pc1..pc4", "x..y"}, "pc5")), "true true false"},
	} {
		if tt[0] != tt[1] {
			t.Errorf("got %s, want %s", tt[0], tt[1])
		}
	}
}
