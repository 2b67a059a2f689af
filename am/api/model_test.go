package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

// modelled is what a plain reading of the API says a sliver is.
type modelled struct {
	client    string
	component string
	status    am.Status
	expires   time.Time
}

// TestModel makes random calls on three slices and compares what Describe and
// the store tell with a plain model; after every step nothing is over-booked,
// no lease outlives its credential, and every record has its reason.
func TestModel(t *testing.T) {
	alice := newSite(t).user("alice")
	names := []string{"m1", "m2", "m3"}
	urns, credentials := map[string]string{}, map[string]string{}
	const lasts = 12 * time.Hour
	for _, n := range names {
		urns[n], credentials[n] = alice.slice(n, lasts)
	}
	until := began.Add(lasts)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSite(t)
		defer s.store.Close()
		c := &caller{site: s, urn: alice.urn, chain: alice.chain, user: alice.user}
		model := map[string]map[string]*modelled{} // slice → sliver URN
		for _, n := range names {
			model[n] = map[string]*modelled{}
		}
		call := func(slice, method string, args ...xmlrpc.Value) answer {
			p := append([]xmlrpc.Value{strs(urns[slice]), creds(credentials[slice])}, args...)
			return c.call(method, append(p, opts())...)
		}
		live := func(slice string) (out []*modelled) {
			for _, m := range model[slice] {
				out = append(out, m)
			}
			return out
		}
		want := func(a answer, what string, ok bool) bool {
			if (a.code == am.Success) != ok || a.code == am.ServerError || a.code == am.DBError {
				rt.Fatalf("%s: code %d %s, expected success: %v", what, a.code, a.output, ok)
			}
			return ok
		}
		all := func(slice string, e am.Event) bool { // does the table let all of the slice's through?
			some := false
			for _, m := range live(slice) {
				if e != am.EventRenew && m.status.Allocation != am.Provisioned {
					continue
				}
				some = true
				if _, err := am.Next(m.status, e); err != nil {
					return false
				}
			}
			return some
		}
		rt.Repeat(map[string]func(*rapid.T){
			"allocate": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				taken := map[string]bool{}
				for _, m := range live(slice) {
					taken[m.client] = true
				}
				var nodes []string
				clash := false
				types := map[string]int{}
				for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 1, 12, rapid.ID[int]).Draw(rt, "nodes") {
					client := fmt.Sprintf("n%d", id)
					typ := rapid.SampledFrom([]string{"raw-pc", "vm"}).Draw(rt, "type")
					types[typ]++
					clash = clash || taken[client]
					nodes = append(nodes, fmt.Sprintf(`<node client_id="%s"><sliver_type name="%s"/></node>`, client, typ))
				}
				a := c.call("Allocate", urns[slice], creds(credentials[slice]), request(nodes...), opts())
				free := map[string]int{"raw-pc": 20}
				for _, n := range names {
					for _, m := range live(n) {
						if regexp.MustCompile(`\+pc\d+$`).MatchString(m.component) {
							free["raw-pc"]--
						}
					}
				}
				switch {
				case clash:
					if a.code != am.Exists {
						rt.Fatalf("a client_id twice: code %d", a.code)
					}
				case types["raw-pc"] > free["raw-pc"]:
					// Components being cleaned are not free either, so the model
					// knows only that more than there is cannot be had.
					want(a, "too many", false)
				case a.code == am.Success:
					for _, v := range a.slivers(t) {
						model[slice][get(v, "geni_sliver_urn").(string)] = &modelled{client: get(v, "geni_client_id").(string),
							status: am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}, expires: s.clock().Add(10 * time.Minute)}
					}
				case a.code != am.TooBig:
					rt.Fatalf("Allocate: %d %s", a.code, a.output)
				}
			},
			"provision": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				var todo []*modelled
				for _, m := range live(slice) {
					if m.status.Allocation == am.Allocated {
						todo = append(todo, m)
					}
				}
				if want(call(slice, "Provision"), "Provision", len(todo) > 0) {
					for _, m := range todo {
						m.status.Allocation = am.Provisioned
						m.expires = until.Add(-10 * time.Minute)
					}
				}
			},
			"action": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				action := rapid.SampledFrom([]am.Event{am.ActionStart, am.ActionStop, am.ActionRestart}).Draw(rt, "action")
				if want(call(slice, "PerformOperationalAction", string(action)), string(action), all(slice, action)) {
					for _, m := range live(slice) {
						if m.status.Allocation == am.Provisioned {
							m.status, _ = am.Next(m.status, action)
						}
					}
				}
			},
			"renew": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				end := s.clock().Add(time.Duration(rapid.IntRange(-30, 900).Draw(rt, "minutes")) * time.Minute)
				ok := len(model[slice]) > 0 && end.After(s.clock()) && !end.After(until)
				for _, m := range live(slice) {
					ok = ok && (m.status.Allocation == am.Provisioned || !end.After(s.clock().Add(2*time.Hour)))
				}
				if want(call(slice, "Renew", formatTime(end)), "Renew", ok) {
					for _, m := range live(slice) {
						m.expires = end
					}
				}
			},
			"delete some": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				some := rapid.SliceOfDistinct(rapid.SampledFrom(append(slices.Sorted(maps.Keys(model[slice])), "urn:publicid:IDN+example.org+sliver+none")), rapid.ID[string]).Draw(rt, "slivers")
				if len(some) == 0 {
					return
				}
				a := c.call("Delete", strs(some...), creds(credentials[slice]), opts())
				if want(a, "Delete", !slices.Contains(some, "urn:publicid:IDN+example.org+sliver+none")) {
					for _, u := range some {
						delete(model[slice], u)
					}
				}
			},
			"delete": func(rt *rapid.T) {
				slice := rapid.SampledFrom(names).Draw(rt, "slice")
				if want(call(slice, "Delete"), "Delete", len(model[slice]) > 0) {
					clear(model[slice])
				}
			},
			"provider works": func(*rapid.T) {
				s.settle()
				for _, n := range names {
					for _, m := range live(n) {
						if to, err := am.Next(m.status, am.EventDone); err == nil {
							m.status = to
						}
					}
				}
			},
			"time passes": func(rt *rapid.T) {
				s.pass(time.Duration(rapid.IntRange(1, 15).Draw(rt, "minutes")) * time.Minute)
				for _, n := range names {
					for u, m := range model[n] {
						if !s.clock().Before(m.expires) {
							delete(model[n], u)
						}
					}
				}
			},
			"": func(rt *rapid.T) { s.compare(rt, c, model, urns, credentials, until) },
		})
	})
}

// compare holds the aggregate against the model.
func (s *site) compare(rt *rapid.T, c *caller, model map[string]map[string]*modelled, urns, credentials map[string]string, until time.Time) {
	for name, slivers := range model {
		a := c.call("Describe", strs(urns[name]), creds(credentials[name]), opts())
		if a.code != am.Success {
			rt.Fatalf("Describe: %d %s", a.code, a.output)
		}
		told := a.slivers(s.t)
		if len(told) != len(slivers) {
			rt.Fatalf("%s has %d slivers, want %d", name, len(told), len(slivers))
		}
		manifest := get(a.value, "geni_rspec").(string)
		if n := len(regexp.MustCompile(` sliver_id="`).FindAllString(manifest, -1)); n != len(slivers) {
			rt.Fatalf("%s: %d nodes in the manifest, want %d", name, n, len(slivers))
		}
		for _, v := range told {
			m := slivers[get(v, "geni_sliver_urn").(string)]
			if m == nil || get(v, "geni_client_id") != m.client || get(v, "geni_expires") != formatTime(m.expires) ||
				get(v, "geni_allocation_status") != string(m.status.Allocation) || get(v, "geni_operational_status") != string(m.status.Operational) {
				rt.Fatalf("%s: told %v, want %+v", name, v, m)
			}
		}
	}
	held, err := s.store.Slivers()
	if err != nil {
		rt.Fatal(err)
	}
	on := map[string][]am.Sliver{}
	for _, x := range held {
		on[x.Component.Name] = append(on[x.Component.Name], x)
		if x.Expires.After(until) {
			rt.Fatalf("sliver %s outlives its credential", x.URN)
		}
		for _, slivers := range model {
			if m := slivers[x.URN.String()]; m != nil {
				m.component = x.Component.String()
			}
		}
	}
	for name, list := range on {
		if limit := map[bool]int{true: 1, false: 100}[list[0].Exclusive]; len(list) > limit {
			rt.Fatalf("%s holds %d slivers", name, len(list))
		}
	}
}
