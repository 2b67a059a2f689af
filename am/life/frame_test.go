package life

import (
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
)

// TestFrame: a life in both versions on a site that is stopped, killed and
// opened again.
func TestFrame(t *testing.T) {
	live(t, func(w *world) {
		s := w.open()
		c := s.alice("frame", 48*time.Hour)
		want := func(what string, a answer, code am.Code) answer {
			t.Helper()
			if a.code != code || bool(a.unheard) {
				t.Fatalf("%s: %d %s (%v)", what, a.code, a.output, a.cause)
			}
			return a
		}
		want("Allocate", c.allocate(request(node("a", "raw-pc"), node("b", "vm"))), am.Success)
		want("Provision", c.v3("Provision", nil, opts()), am.Success)
		if !s.settle(time.Minute) {
			t.Fatal("it is not made")
		}
		for i, end := range []func(*site){(*site).stop, (*site).kill} {
			end(s)
			s = w.open()
			c.site = s
			if got := want("Status", c.v3("Status", nil, opts()), am.Success).slivers(); len(got) != 2 || got[0].state != "geni_notready" {
				t.Fatalf("opened again, %d: %v", i, got)
			}
		}
		w.after = func(int) { s.die() }
		if a := c.v3("PerformOperationalAction", nil, "geni_start", opts()); !bool(a.unheard) {
			t.Fatalf("the dead answer: %v", a)
		}
		w.after = nil
		s.kill()
		s = w.open()
		c.site = s
		if !s.settle(time.Minute) {
			t.Fatal("it does not start")
		}
		if a := c.v2("SliverStatus", opts()); get(a.value, "geni_status") != "ready" {
			t.Fatalf("SliverStatus: %v", a)
		}
		want("DeleteSliver", c.v2("DeleteSliver", opts()), am.Success)
		s.settle(time.Minute)
		synctest.Wait()
		slivers, _ := s.records()
		if len(slivers)+len(w.racks["metal"].present())+len(w.racks["cloud"].present()) > 0 {
			t.Fatalf("left behind: %v, %v", slivers, w.racks["metal"].present())
		}
	})
}
