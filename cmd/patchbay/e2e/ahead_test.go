package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// editStore changes the records of a site that is not served.
func (s *servedSite) editStore(d store.Decision) {
	s.t.Helper()
	st, err := store.Open(filepath.Join(s.dir, "state.db"), store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	if err := st.Commit(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
}

// beginSoon moves the windows of all slivers that have not begun, as if the time until then had passed: those of the first slice
// begin at the time from, and those of each other slice a pause later.
func (s *servedSite) beginSoon(from time.Time, pause time.Duration) {
	s.t.Helper()
	starts := map[string]time.Time{}
	s.editStore(func(v *store.View) (cs store.ChangeSet, err error) {
		err = v.Slivers(func(x am.Sliver) bool {
			if !x.Waits() {
				return true
			}
			if starts[x.Slice.Key()].IsZero() {
				starts[x.Slice.Key()] = from.Add(time.Duration(len(starts)) * pause).Truncate(time.Second)
			}
			by := starts[x.Slice.Key()].Sub(x.Begins)
			x.Begins, x.Ends, x.Expires = x.Begins.Add(by), x.Ends.Add(by), x.Expires.Add(by)
			cs.PutSliver(x)
			return true
		})
		return cs, err
	})
}

// checkBegun checks the database of a site that is not served: each sliver has begun exactly once, and not before its start.
// Those that provision themselves are ready, with the keys of their accounts.
func (s *servedSite) checkBegun(slivers int) {
	s.t.Helper()
	s.editStore(func(v *store.View) (cs store.ChangeSet, err error) {
		begun := map[string][]time.Time{}
		err = v.Journal(func(e am.JournalEntry) bool {
			for _, u := range e.Slivers {
				if e.Event == lease.EventBegins {
					begun[u.Key()] = append(begun[u.Key()], e.At)
				}
			}
			return true
		})
		if err != nil {
			return cs, err
		}
		n := 0
		err = v.Slivers(func(x am.Sliver) bool {
			n++
			at := begun[x.URN.Key()]
			if !x.Begun || len(at) != 1 || at[0].Before(x.Begins) {
				s.t.Errorf("%s, which begins at %s, began at %s", x.URN, x.Begins, at)
			}
			switch want, keys := x.AutoProvision, x.Observed.Accounts; {
			case want != (x.Status.Operational == am.Ready) || x.Error != "":
				s.t.Errorf("%s provisions itself: %v, and is %v: %s", x.URN, want, x.Status, x.Error)
			case want && (x.Generation != 2 || len(keys) != 1 || !slices.Equal(keys[0].Keys, []string{userKey})):
				s.t.Errorf("%s has generation %d and the accounts %v", x.URN, x.Generation, keys)
			}
			return true
		})
		if n != slivers {
			s.t.Errorf("%d slivers are left of %d", n, slivers)
		}
		return cs, err
	})
}

// TestKilledAtStarts kills the server about ten times while reservations begin, once more for each ten of PATCHBAY_KILLS. Each begins
// exactly once and none is lost; those that provision themselves become ready, and the others can be provisioned.
func TestKilledAtStarts(t *testing.T) {
	rounds := (killCount(t, "PATCHBAY_KILLS", 2) + 9) / 10
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	s := newServedSite(t, "testbed.example.org", f, root)
	s.appendSettings("timing: {make: 30ms, start: 20ms, stop: 20ms, restart: 20ms, users: 20ms, remove: 30ms}\n")
	k := newKillTest(t, s, f, root, 6)
	users := []client.User{{URN: k.user.urn, Keys: []string{userKey}}}
	kills := 0
	for range rounds {
		s.start()
		c := s.client(k.user, false)
		for i, b := range k.books {
			at := client.Options{Start: time.Now().Add(time.Hour), End: time.Now().Add(3 * time.Hour), AtStart: i%3 > 0, Users: users}
			if _, _, err := c.Allocate(t.Context(), b.slice, b.cred, twoNodes, at); err != nil {
				t.Fatal(err)
			}
		}
		s.stop()
		first := time.Now().Add(time.Second)
		s.beginSoon(first, 500*time.Millisecond)
		for time.Now().Before(first.Add(3 * time.Second)) {
			s.start()
			time.Sleep(time.Duration(k.rnd.IntN(600)) * time.Millisecond)
			s.kill()
			kills++
		}
		s.start()
		c = s.client(k.user, false)
		for i, b := range k.books {
			if i%3 == 0 { // the call may come before the runner
				if a, _, err := c.Provision(t.Context(), []string{b.slice}, b.cred, client.Options{Users: users}); err != nil || len(a.Slivers) != 2 {
					t.Errorf("Provision after the start: %d slivers, %v", len(a.Slivers), err)
				}
				continue
			}
			wait.Until(t, b.slice+" is ready", func() bool {
				a, _, err := c.Status(t.Context(), []string{b.slice}, b.cred, client.Options{})
				if err != nil || len(a.Slivers) != 2 {
					t.Fatalf("%d slivers, %v", len(a.Slivers), err)
				}
				return !slices.ContainsFunc(a.Slivers, func(x client.Sliver) bool { return x.Operational != string(am.Ready) })
			})
		}
		k.awaitIdle()
		s.stop()
		s.checkBegun(2 * len(k.books))
		s.checkStore(kills, s.providerNodes("simulated"))
		s.start()
		k.release()
		s.stop()
	}
	s.checkAudit()
	t.Logf("killed %d times", kills)
}

// TestOnHostClassAhead reserves real nodes for a class of ten, each in a slice of its own. At the hour all nodes start by themselves, and
// their users log in.
func TestOnHostClassAhead(t *testing.T) {
	t.Parallel() // it mostly waits
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("lab", i))
	}
	s := newSetupSite(t, names...)
	for _, name := range names {
		x := s.slice(t, name)
		at := client.Options{Start: time.Now().Add(time.Hour), End: time.Now().Add(3 * time.Hour), AtStart: true, Users: []client.User{s.alice}}
		if _, _, err := s.client.Allocate(t.Context(), x.urn, x.creds, strings.ReplaceAll(threeNodes[:strings.Index(threeNodes, `<node client_id="b"`)]+"</rspec>", `"a"`, `"`+name+`"`), at); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	hour := time.Now().Add(5 * time.Second)
	s.beginSoon(hour, 0)
	s.start()
	s.connect(t)
	for _, name := range names {
		x := s.slice(t, name)
		a, _, err := s.client.Status(t.Context(), []string{x.urn}, x.creds, client.Options{})
		if err != nil || len(a.Slivers) != 1 || time.Now().Before(a.Slivers[0].Begins) && a.Slivers[0].Allocation != string(am.Allocated) {
			t.Fatalf("before the hour: %+v, %v", a.Slivers, err)
		}
	}
	for _, name := range names {
		x := s.slice(t, name)
		x.awaitReady()
		if got := x.run(x.logins()[name], "hostname; geni-get slice_urn"); got != name+"\n"+x.urn+"\n" {
			t.Errorf("%s says %q", name, got)
		}
	}
	t.Logf("all have logged in %v after the hour", time.Since(hour).Round(time.Second))
	for _, name := range names {
		s.slice(t, name).delete()
	}
	s.stop()
}
