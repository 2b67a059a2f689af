package api

import (
	"context"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/xmlrpc"
)

// endLeases ends what is over, as the runner does.
func (s *site) endLeases(ctx context.Context) error {
	return s.store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		due, _, err := v.Due(100)
		if err == nil {
			err = lease.Release(v, &cs, due, am.EventExpire, "")
		}
		return cs, err
	})
}

// TestNothingIsThereFromItsEndOn: at the very moment of its end, and before anybody
// has ended it, no method of either version finds a sliver.
func TestNothingIsThereFromItsEndOn(t *testing.T) {
	for _, state := range []string{"reserved", "pending", "ready"} {
		t.Run(state, func(t *testing.T) {
			s := newSite(t)
			x := s.user("alice").own("s1", 48*time.Hour)
			one := x.allocate(request(node("a"))).want(t, "Allocate", am.Success).names(t)
			lasts := 10 * time.Minute
			if state != "reserved" {
				x.v3("Provision").want(t, "Provision", am.Success)
				lasts = 24 * time.Hour
			}
			if state == "ready" {
				s.settle()
				x.v3("PerformOperationalAction", "geni_start").want(t, "start", am.Success)
				s.settle()
			}
			s.pass(lasts - 1)
			x.v3("Status").want(t, "Status before the end", am.Success)
			s.pass(1)
			for _, urns := range [][]xmlrpc.Value{strs(x.slice), strs(one...)} {
				for _, m := range []struct {
					name string
					args []xmlrpc.Value
				}{
					{"Status", nil}, {"Provision", nil}, {"Renew", []xmlrpc.Value{s.at(time.Hour)}},
					{"PerformOperationalAction", []xmlrpc.Value{"geni_start"}}, {"PerformOperationalAction", []xmlrpc.Value{"geni_restart"}},
					{"PerformOperationalAction", []xmlrpc.Value{"geni_update_users"}}, {"Delete", nil},
				} {
					x.v3On(m.name, urns, m.args...).want(t, m.name, am.SearchFailed)
				}
			}
			x.v3On("Describe", strs(one...)).want(t, "Describe of the sliver", am.SearchFailed)
			if a := x.v3("Describe").want(t, "Describe of the slice", am.Success); len(get(a.value, "geni_slivers").([]xmlrpc.Value)) != 0 {
				t.Errorf("Describe: %v", a.value)
			}
			x.v2("SliverStatus").want(t, "SliverStatus", am.SearchFailed)
			x.v2("RenewSliver", s.at(time.Hour)).want(t, "RenewSliver", am.SearchFailed)
			x.v2("DeleteSliver").want(t, "DeleteSliver", am.SearchFailed)
			x.list2().want(t, "ListResources", am.SearchFailed)
			x.call("Shutdown", x.slice, creds(x.cred), opts()).want(t, "Shutdown", am.SearchFailed)
			// Its name in the slice is free, too.
			x.allocate(request(node("a"))).want(t, "Allocate", am.Success)
			if got := x.v3("Status").names(t); len(got) != 1 || got[0] == one[0] {
				t.Errorf("Status: %v, after %v", got, one)
			}
		})
	}
}

// TestWhatIsOverIsInNobodysWay: a node whose lease is over is another's at once if
// nothing was made of it, and else as soon as it is clean, although nobody has ended
// the lease.
func TestWhatIsOverIsInNobodysWay(t *testing.T) {
	bound := request(`<node client_id="a" component_id="urn:publicid:IDN+` + authority + `+node+pc7"/>`)
	for _, made := range []bool{false, true} {
		s := setting{endLeases: true}.site(t)
		x, y := s.user("alice").own("s1", 48*time.Hour), s.user("bob").own("s2", 48*time.Hour)
		x.allocate(bound).want(t, "Allocate", am.Success)
		lasts := 10 * time.Minute
		if made {
			x.v3("Provision").want(t, "Provision", am.Success)
			s.settle()
			lasts = 24 * time.Hour
		}
		s.pass(lasts - 1)
		y.allocate(bound).want(t, "before the end", am.TooBig)
		s.pass(1)
		if made {
			y.allocate(bound).want(t, "while it is cleaned", am.Busy)
			s.settle()
		}
		y.allocate(bound).want(t, "after the end", am.Success)
		x.v3("Status").want(t, "of the one before", am.SearchFailed)
	}
}
