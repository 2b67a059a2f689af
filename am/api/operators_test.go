package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory"
)

// TestOperatorsBesideCallers has two operators release, renew, thaw and list slivers of 20 nodes,
// while 16 callers reserve, provision, renew, shut down and delete. Each acknowledged operation has
// happened exactly once, and the journal agrees. No list shows a node with two owners. At the end
// all nodes are free.
func TestOperatorsBesideCallers(t *testing.T) {
	s := newSite(t)
	s.previewer = nil // a call is refused, and the site may be empty a moment later
	operations := operate.New(operate.Config{
		Store: s.store, Inventory: func() *inventory.Inventory { return s.inventory }, Plan: func() *maintenance.Plan { return nil },
	})
	const callers, rounds = 16, 12
	alice := s.user("alice")
	slices, credentials := make([]string, callers), make([]string, callers)
	for i := range slices {
		slices[i], credentials[i] = alice.slice(fmt.Sprintf("beside%d", i), time.Hour)
	}
	var stop atomic.Bool
	var others, work sync.WaitGroup
	others.Go(func() {
		for !stop.Load() {
			s.settle()
		}
	})
	var shutdowns, thawed, released, renewed atomic.Int64
	for n := range 2 {
		operator := fmt.Sprint("operator", n)
		others.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			count := func(what string, n *atomic.Int64, done operate.Result, err error) {
				if err == nil {
					n.Add(int64(len(done.Slices)))
				} else if _, ok := errors.AsType[*operate.RefusedError](err); !ok {
					t.Errorf("%s: %v", what, err)
				}
			}
			for !stop.Load() {
				a, b := slices[r.IntN(callers)], slices[r.IntN(callers)]
				switch r.IntN(5) {
				case 0:
					done, err := operations.Release(context.Background(), operate.Release{Targets: []string{a, b}, Frozen: r.IntN(2) == 0, Operator: operator})
					count("release", &released, done, err)
				case 1:
					done, err := operations.Renew(context.Background(), operate.Renew{Targets: []string{a}, End: operate.End{For: int64(600 + r.IntN(600))}, Operator: operator})
					count("renew", &renewed, done, err)
				case 2:
					err := operations.Nodes(operate.Filter{}, func(x operate.Node) error {
						if x.Exclusive && x.Slivers > 1 {
							t.Errorf("%s has %d slivers: %+v", x.Name, x.Slivers, x.Holders)
						}
						return nil
					})
					if err != nil {
						t.Errorf("nodes: %v", err)
					}
				default:
					done, err := operations.Thaw(context.Background(), operate.Thaw{Slice: a, Operator: operator})
					count("thaw", &thawed, done, err)
				}
			}
		})
	}
	for i := range callers {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			call := func(method string, params ...xmlrpc.Value) am.Code {
				a := alice.call(method, params...)
				switch a.code {
				case am.Success, am.Forbidden, am.SearchFailed, am.TooBig, am.Busy, am.Unsupported, am.Exists:
				default:
					t.Errorf("%s: code %d %s (%v)", method, a.code, a.output, a.resp.Event.Err)
				}
				return a.code
			}
			mine, cred := strs(slices[i]), creds(credentials[i])
			for range rounds {
				call("Allocate", slices[i], cred, request(node("a"), node("b")), opts())
				call("Provision", mine, cred, opts())
				call("Renew", mine, cred, s.clock().Add(time.Duration(1+r.IntN(40))*time.Minute).Format(time.RFC3339), opts())
				call("Status", mine, cred, opts())
				if r.IntN(3) == 0 && call("Shutdown", slices[i], cred, opts()) == am.Success {
					continue
				}
				call("Delete", mine, cred, opts())
			}
		})
	}
	work.Wait()
	stop.Store(true)
	others.Wait()

	left := func(f operate.Filter) (n int64) {
		if err := operations.Slices(f, func(operate.Slice) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	frozen := left(operate.Filter{Shutdown: true})
	events := map[string]int64{}
	if err := operations.Journal(operate.Filter{}, func(e operate.Entry) error {
		who := ""
		if e.Operator != "" {
			who = " by an operator"
		}
		events[e.Event+who]++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	shutdowns.Store(events["Shutdown"])
	for what, n := range map[string]int64{"thaw": thawed.Load(), "Delete": released.Load(), "Renew": renewed.Load()} {
		if events[what+" by an operator"] != n {
			t.Errorf("%d of %s were acknowledged, the journal has %d", n, what, events[what+" by an operator"])
		}
	}
	if shutdowns.Load() != thawed.Load()+frozen {
		t.Errorf("%d shutdowns, but %d were thawed and %d are left", shutdowns.Load(), thawed.Load(), frozen)
	}
	if shutdowns.Load() == 0 {
		t.Error("nothing was shut down: the test proves little")
	}
	t.Logf("%d shutdowns, %d thawed, %d slices released, %d renewed", shutdowns.Load(), thawed.Load(), released.Load(), renewed.Load())

	for _, slice := range slices {
		operations.Release(t.Context(), operate.Release{Targets: []string{slice}, Frozen: true, Operator: "dora"})
		operations.Thaw(t.Context(), operate.Thaw{Slice: slice, ReleaseExpired: true, Operator: "dora"})
	}
	s.settle()
	s.settle()
	for _, what := range []string{"slices", "slivers", "tasks"} {
		w := httptest.NewRecorder()
		operate.Endpoints(operations)["GET /"+what].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+what, nil))
		if w.Code != http.StatusOK || w.Body.Len() > 0 {
			t.Errorf("%s are left: %d, %s", what, w.Code, w.Body)
		}
	}
	if err := s.store.Read(func(v *store.View) error {
		return v.Slivers(func(x am.Sliver) bool { t.Errorf("%+v is left", x); return true })
	}); err != nil {
		t.Fatal(err)
	}
}
