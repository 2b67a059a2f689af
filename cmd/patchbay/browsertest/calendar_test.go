package browsertest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	ical "github.com/arran4/golang-ical"
)

// pressBar clicks a link of a calendar whose label begins with a text.
func (p *tab) pressBar(label string) {
	p.t.Helper()
	p.until(`(() => {
		const e = [...document.querySelectorAll("svg a[aria-label]")].find(e => e.getAttribute("aria-label").startsWith(%s));
		if (!e) return "no such bar";
		window.pressed = true;
		e.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
		return "";
	})()`, label)
	p.until("arrived()")
}

// events reads a feed, and returns its events.
func (s *site) events(url string) (status int, list []*ical.VEvent) {
	s.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, nil
	}
	if bytes.Count(body, []byte("VALUE=DURATION")) != 1 {
		s.t.Errorf("a parameter is not there once:\n%s", body)
	}
	c, err := ical.ParseCalendar(bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("%v:\n%s", err, body)
	}
	return resp.StatusCode, c.Events()
}

// TestWebCalendar reserves nodes for next week from a free time of the calendar, as a teacher in Berlin does, and moves the end. A calendar program
// sees the experiment by the feed.
func TestWebCalendar(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, []string{"user", "alice"}, []string{"user", "bob"})
	p, bob := s.member("alice"), s.member("bob")
	if _, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"}); err != nil {
		t.Fatal(err)
	}
	p.press("Calendar")
	p.press("Later")
	p.see("raw-pc", "UTC", "Here")
	if first := get[string](p, `document.querySelector(".calendar thead th").innerText`); first != "Here" {
		t.Errorf("the first axis is %q", first)
	}
	day := `(() => { const q = new URLSearchParams(document.querySelector(".calendar .axis a").getAttribute("href")); return q.get("days") + " " + q.get("from").slice(11); })()`
	if got := get[string](p, day); got != "1 23:00" && got != "1 22:00" {
		t.Errorf("the first day has a link to %s UTC", got)
	}
	p.pressBar("pc1: free")
	p.see("Start an experiment", "1 node", "Check and Start find whether it fits then.")
	p.fill("How many nodes", "2")
	p.press("Change the request")
	p.see("2 nodes", "Check and Start find whether it fits then.")
	begin := get[string](p, `document.getElementById("begin").value`)
	if end := get[string](p, `document.getElementById("end").value`); end != "" {
		t.Errorf("the end is %s, not that of how long it lasts", end)
	}
	p.fill("Name", "course")
	p.press("Start")
	p.see("The nodes are reserved for you from", "It begins", "The site creates and starts the nodes then", "Delete reservation…")
	if state := get[string](p, `document.querySelector("h1 .state").innerText`); state != "reserved" {
		t.Errorf("the state is %q", state)
	}
	from, err := time.Parse("2006-01-02T15:04", begin)
	if err != nil {
		t.Fatal(err)
	}
	p.fill("End", from.Add(-time.Hour).Format("2006-01-02T15:04"))
	p.press("Move the end")
	p.see("The end must be after the begin")
	p.fill("End", from.Add(2*time.Hour).Format("2006-01-02T15:04"))
	p.press("Move the end")
	p.see("The reservation ends at")
	p.press("Mine")
	p.see("course reserved 2 nodes: 2 reserved")

	p.press("Make a feed link")
	feed := get[string](p, `document.querySelector("#feed [data-copy]").dataset.copy`)
	_, list := s.events(feed)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := time.Date(from.Year(), from.Month(), from.Day(), from.Hour(), from.Minute(), 0, 0, berlin)
	if len(list) != 1 || list[0].GetProperty(ical.ComponentPropertySummary).Value != "course" {
		t.Fatalf("the feed has %d events", len(list))
	}
	start, _ := list[0].GetStartAt()
	if end, _ := list[0].GetEndAt(); !start.Equal(want) || !end.Equal(want.Add(2*time.Hour)) {
		t.Errorf("the event is from %s until %s, want %s", start, end, want)
	}

	for _, name := range []string{"Calendar", "Later"} {
		p.press(name)
		bob.press(name)
	}
	mine, others := `document.querySelectorAll("svg a[aria-label^='course on pc']").length`, `document.querySelectorAll("svg [aria-label*=': reserved from']").length`
	if n := get[int](p, mine); n != 2 {
		t.Errorf("alice sees %d of her windows", n)
	}
	if n, text := get[int](bob, others), get[string](bob, "document.body.innerHTML"); n != 2 || strings.Contains(text, "course") || strings.Contains(text, "alice") {
		t.Errorf("bob sees %d windows:\n%s", n, text)
	}

	bob.press("Mine")
	bob.press("Make a feed link")
	if status, list := s.events(get[string](bob, `document.querySelector("#feed [data-copy]").dataset.copy`)); status != http.StatusOK || len(list) != 0 {
		t.Errorf("bob's feed: %d, %d events", status, len(list))
	}
	later := newTab(t, s.at.Pages)
	later.open("/ui/calendar?from=" + begin[:10] + "T00:00")
	later.see("Choose a free time, then sign in to reserve it.")
	later.pressBar("pc4: free")
	later.see("You sign in with a link")
	later.open(link.FindString(s.patchbay("user", "alice", "--link")))
	later.press("Sign in as alice")
	later.see("Start an experiment")
	if got := get[string](later, `document.getElementById("begin").value`); got != begin[:10]+"T00:00" {
		t.Errorf("after the sign-in, the begin is %q", got)
	}

	p.press("Mine")
	p.press("Make a feed link")
	p.see("It is not shown again.")
	second := get[string](p, `document.querySelector("#feed [data-copy]").dataset.copy`)
	gone := func(what, url string) {
		t.Helper()
		if status, _ := s.events(url); status != http.StatusNotFound {
			t.Errorf("%s: %d", what, status)
		}
	}
	gone("an old link", feed)
	gone("a wrong link", second[:len(second)-5]+"A.ics")
	if status, list := s.events(second); status != http.StatusOK || len(list) != 1 {
		t.Errorf("the second link: %d, %d events", status, len(list))
	}
	s.patchbay("user", "alice", "--sign-out")
	gone("after the sign-out", second)
	p = s.member("alice")
	p.press("course")
	p.press("Delete reservation…")
	p.press("Yes, delete course")
	p.see("The reservation was deleted.")
}

// TestWebRoom lets the buttons of a refusal fill in a time that has room.
func TestWebRoom(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, []string{"user", "alice"}, []string{"user", "bob"})
	s.upAt("bob", "other", request("raw-pc:a:pc1"), 24*time.Hour, 48*time.Hour)
	p := s.member("alice")
	fill := func(node, name string, begin, end time.Duration) {
		p.open("/ui/start?own&" + "begin=" + time.Now().UTC().Add(begin).Format("2006-01-02T15:04") + "&end=" + time.Now().UTC().Add(end).Format("2006-01-02T15:04"))
		p.fill("The request", request(node))
		p.see("Check and Start find whether it fits then.")
		p.fill("Name", name)
		p.expect("422")
		p.press("Start")
		p.see("The request does not fit then; see below. Nothing is reserved.")
	}
	button := func(name string) {
		p.press(get[string](p, `document.querySelector("button[name=`+name+`]").innerText`))
		p.see("Check and Start find whether it fits then.")
		p.press("Start")
		p.see("The nodes are reserved for you from")
	}
	fill("raw-pc:a:pc1", "before", 20*time.Hour, 26*time.Hour)
	p.pictures("start-room")
	p.press(get[string](p, `document.querySelector("button[name=last]").innerText`))
	p.see("Check and Start find whether it fits then.")
	p.press("Check")
	p.see("It fits then. Nothing is reserved yet.")
	p.press("Start")
	p.see("The nodes are reserved for you from")
	fill("raw-pc:a:pc1", "after", 30*time.Hour, 34*time.Hour)
	button("first")
	s.upAt("bob", "long", request("raw-pc:a:pc2"), 8*24*time.Hour, 11*24*time.Hour) // the end is more than a week away
	fill("raw-pc:a:pc2", "week", 9*24*time.Hour, 10*24*time.Hour)
	button("first")
	s.up("alice", "now", request("raw-pc:a:pc1"), false) // it is cut to the next reservation
	p.open("/ui/experiment/-/now")
	p.see("1 node: 1 ready", "It can be extended until")
}
