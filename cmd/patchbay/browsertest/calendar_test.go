package browsertest

import (
	"testing"
	"time"
)

// TestWebCalendar reserves an experiment for next week, as a teacher does: from a gap of the calendar.
func TestWebCalendar(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, []string{"user", "alice"}, []string{"user", "bob"})
	p := s.member("alice")
	p.press("Calendar")
	p.see("raw-pc", "UTC", "Later")
	p.press("Later")
	get[bool](p, `document.querySelector("a[aria-label^='pc1: free']").dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}))`)
	p.see("Start an experiment", "1 node", "Start checks whether it fits then.")
	p.fill("Name", "lab")
	p.press("Start")
	p.see("The nodes are reserved for you from")
	p.press("Calendar")
	p.press("Later")
	p.pictures("calendar-mine")
	_ = time.Now
}
