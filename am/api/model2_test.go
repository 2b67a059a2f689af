package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

// node2 is what the model of both versions knows of a sliver.
type node2 struct {
	state   string // "making and starting" is what CreateSliver leaves
	expires time.Time
}

// slice2 is a slice of that model: its slivers by client_id.
type slice2 struct {
	owned
	nodes map[string]*node2
	shut  bool
}

// The model's own idea of the states, in words that no table of ours has.
var (
	operational2 = map[string]string{
		"reserved": "geni_pending_allocation", "making": "geni_pending_allocation", "making and starting": "geni_pending_allocation",
		"off": "geni_notready", "starting": "geni_configuring", "on": "geni_ready", "stopping": "geni_stopping", "broken": "geni_failed",
	}
	actions2 = map[string]map[string]string{ // action, state → state
		"geni_start":   {"off": "starting", "starting": "starting", "on": "on"},
		"geni_stop":    {"on": "stopping", "stopping": "stopping", "off": "off"},
		"geni_restart": {"on": "starting"},
	}
	works2 = map[string]string{"making": "off", "making and starting": "on", "starting": "on", "stopping": "off"}
)

// TestModelOfBothVersions makes random calls of both versions on the same
// slices. After every step SliverStatus or Status tells what a plain map says,
// and now and then ListResources and Describe do.
func TestModelOfBothVersions(t *testing.T) {
	const lasts = 30 * time.Hour
	first := newSite(t).user("alice")
	owns := make([]owned, 2)
	for i := range owns {
		owns[i] = first.own(fmt.Sprintf("both%d", i), lasts)
	}
	until := began.Add(lasts)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSite(t)
		defer s.store.Close()
		c := &caller{site: s, urn: first.urn, chain: first.chain, user: first.user}
		all := make([]*slice2, len(owns))
		for i, o := range owns {
			all[i] = &slice2{owned: owned{c, o.slice, o.cred}, nodes: map[string]*node2{}}
		}
		touched := all[0]
		one := func(rt *rapid.T) *slice2 {
			touched = all[rapid.IntRange(0, len(all)-1).Draw(rt, "slice")]
			return touched
		}
		is := func(a answer, what string, want am.Code) bool {
			if a.code != want {
				rt.Fatalf("%s: code %d %s, want %d", what, a.code, a.output, want)
			}
			return want == am.Success
		}
		request2 := func(rt *rapid.T) (ids []string, text string) {
			var nodes []string
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 3, rapid.ID[int]).Draw(rt, "nodes") {
				ids = append(ids, fmt.Sprintf("n%d", n))
				nodes = append(nodes, fmt.Sprintf(`<node client_id="n%d"><sliver_type name="vm"/></node>`, n))
			}
			return ids, request(nodes...)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"CreateSliver": func(rt *rapid.T) {
				x := one(rt)
				ids, text := request2(rt)
				want := x.code(am.Success)
				if !x.shut && len(x.nodes) > 0 {
					want = am.Exists
				}
				if is(x.create(text), "CreateSliver", want) {
					for _, id := range ids {
						x.nodes[id] = &node2{"making and starting", s.modelLease(until)}
					}
				}
			},
			"Allocate": func(rt *rapid.T) {
				x := one(rt)
				ids, text := request2(rt)
				want := x.code(am.Success)
				if !x.shut && slices.ContainsFunc(ids, func(id string) bool { return x.nodes[id] != nil }) {
					want = am.Exists
				}
				if is(x.allocate(text), "Allocate", want) {
					for _, id := range ids {
						x.nodes[id] = &node2{"reserved", earlier2(s.clock().Add(10*time.Minute), until)}
					}
				}
			},
			"Provision": func(rt *rapid.T) {
				x := one(rt)
				want := x.code(am.SearchFailed)
				if !x.shut && x.some("reserved") {
					want = am.Success
				}
				if is(x.v3("Provision"), "Provision", want) {
					for _, n := range x.nodes {
						if n.state == "reserved" {
							*n = node2{"making", s.modelLease(until)}
						}
					}
				}
			},
			"action": func(rt *rapid.T) {
				x := one(rt)
				action := rapid.SampledFrom(slices.Sorted(maps.Keys(actions2))).Draw(rt, "action")
				next := map[*node2]string{}
				want := x.code(am.Success)
				for _, n := range x.nodes {
					if n.state == "reserved" {
						continue
					}
					to, ok := actions2[action][n.state]
					if next[n] = to; !ok && !x.shut {
						want = am.Unsupported
					}
				}
				switch {
				case x.shut:
				case len(x.nodes) == 0:
					want = am.SearchFailed
				case len(next) == 0:
					want = am.Unsupported
				}
				if is(x.v3("PerformOperationalAction", action), action, want) {
					for n, to := range next {
						n.state = to
					}
				}
			},
			"renew": func(rt *rapid.T) {
				x := one(rt)
				version := rapid.SampledFrom([]string{"RenewSliver", "Renew"}).Draw(rt, "version")
				alap := rapid.Bool().Draw(rt, "alap")
				end := s.clock().Add(time.Duration(rapid.IntRange(-20, 40*60).Draw(rt, "minutes")) * time.Minute)
				want := x.code(am.Success)
				ends := map[*node2]time.Time{}
				for _, n := range x.nodes {
					latest := until // and the site's month is longer
					if n.state == "reserved" {
						latest = earlier2(s.clock().Add(2*time.Hour), until)
					}
					switch ends[n] = earlier2(end, latest); {
					case alap && ends[n].Before(n.expires):
						ends[n] = n.expires // it never shortens
					case !alap && end.After(latest) && want == am.Success:
						want = am.Refused
					}
				}
				switch {
				case x.shut:
				case len(x.nodes) == 0:
					want = am.SearchFailed
				case !end.After(s.clock()):
					want = am.BadArgs
				}
				options := opts(opt("geni_extend_alap", alap))
				var a answer
				if version == "Renew" {
					a = c.call("Renew", strs(x.slice), creds(x.cred), formatTime(end), options)
				} else {
					a = x.v2("RenewSliver", formatTime(end), options)
				}
				if is(a, version, want) {
					for n, e := range ends {
						n.expires = e
					}
					if version == "RenewSliver" && alap && a.output != formatTime(x.first()) {
						rt.Fatalf("RenewSliver led to %q, want %s", a.output, formatTime(x.first()))
					}
				}
			},
			"delete": func(rt *rapid.T) {
				x := one(rt)
				want := x.code(am.Success)
				if !x.shut && len(x.nodes) == 0 {
					want = am.SearchFailed
				}
				call, method := x.v2, "DeleteSliver"
				if rapid.Bool().Draw(rt, "in version 3") {
					call, method = x.v3, "Delete"
				}
				if is(call(method), method, want) {
					clear(x.nodes)
				}
			},
			"delete one": func(rt *rapid.T) {
				x := one(rt)
				if x.shut || len(x.nodes) == 0 {
					return
				}
				list := x.v3("Status").slivers(t)
				v := rapid.SampledFrom(list).Draw(rt, "sliver")
				is(x.v3On("Delete", strs(get(v, "geni_sliver_urn").(string))), "Delete of one", am.Success)
				delete(x.nodes, get(v, "geni_client_id").(string))
			},
			"shutdown": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
					return
				}
				x := one(rt)
				want := am.Success
				if !x.shut && len(x.nodes) == 0 {
					want = am.SearchFailed
				}
				if is(x.v2("Shutdown"), "Shutdown", want) {
					x.shut = true
				}
			},
			"provider works": func(*rapid.T) {
				s.settle()
				for _, x := range all {
					for _, n := range x.nodes {
						if to, ok := works2[n.state]; ok {
							n.state = to
						}
					}
				}
			},
			"provider breaks": func(rt *rapid.T) {
				x := one(rt)
				if x.shut || len(x.nodes) == 0 {
					return
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(x.nodes))).Draw(rt, "node")
				if x.nodes[id].state != "on" {
					return
				}
				s.edit(t, func(m *am.Sliver) {
					if m.Slice.String() == x.slice && m.ClientID == id && m.Live(s.clock()) {
						m.Status.Operational = am.Failed
					}
				})
				x.nodes[id].state = "broken"
			},
			"time passes": func(rt *rapid.T) {
				s.pass(time.Duration(rapid.IntRange(1, 60).Draw(rt, "minutes")) * time.Minute)
				for _, x := range all {
					if !x.shut {
						maps.DeleteFunc(x.nodes, func(_ string, n *node2) bool { return !s.clock().Before(n.expires) })
					}
				}
			},
			"": func(rt *rapid.T) {
				if !s.clock().Before(until) {
					rt.Skip("the credentials are over")
				}
				if rapid.Bool().Draw(rt, "look by version 2") {
					touched.compare2(rt)
				} else {
					touched.compare3(rt, t)
				}
			},
			"look": func(rt *rapid.T) { one(rt).compareManifest(rt) },
		})
	})
}

// code is what a call is answered with that would otherwise be answered with
// this.
func (x *slice2) code(otherwise am.Code) am.Code {
	if x.shut {
		return am.Forbidden
	}
	return otherwise
}

func (x *slice2) some(state string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(x.nodes)), func(n *node2) bool { return n.state == state })
}

// first is when the first lease ends.
func (x *slice2) first() (t time.Time) {
	for _, n := range x.nodes {
		if t.IsZero() || n.expires.Before(t) {
			t = n.expires
		}
	}
	return t
}

func earlier2(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// modelLease is the lease that is given when none is asked for: a day, or short
// of the credential where there is room for that.
func (s *site) modelLease(until time.Time) time.Time {
	if until.Sub(s.clock()) > 20*time.Minute {
		until = until.Add(-10 * time.Minute)
	}
	return earlier2(s.clock().Add(24*time.Hour), until)
}

// compare2 holds SliverStatus against the model.
func (x *slice2) compare2(rt *rapid.T) {
	a := x.v2("SliverStatus")
	if len(x.nodes) == 0 {
		if a.code != am.SearchFailed {
			rt.Fatalf("SliverStatus of an empty slice: %d %s", a.code, a.output)
		}
		return
	}
	if a.code != am.Success {
		rt.Fatalf("SliverStatus: %d %s", a.code, a.output)
	}
	word := map[string]string{"on": "ready", "broken": "failed"} // others: configuring
	overall := "ready"
	for _, n := range x.nodes {
		if n.state == "broken" {
			overall = "failed"
		} else if n.state != "on" && overall != "failed" {
			overall = "configuring"
		}
	}
	if x.shut {
		overall = "shutdown"
	}
	list := get(a.value, "geni_resources").([]xmlrpc.Value)
	if get(a.value, "geni_status") != overall || get(a.value, "pg_expires") != formatTime(x.first()) || len(list) != len(x.nodes) {
		rt.Fatalf("SliverStatus %v, want %s until %s of %d", a.value, overall, formatTime(x.first()), len(x.nodes))
	}
	for _, v := range list {
		n := x.nodes[get(v, "geni_client_id").(string)]
		if n == nil {
			rt.Fatalf("SliverStatus tells of %v", v)
		}
		want := cmp.Or(word[n.state], "configuring")
		if x.shut {
			want = "shutdown"
		}
		if get(v, "geni_status") != want || get(v, "geni_expires") != formatTime(n.expires) {
			rt.Fatalf("SliverStatus tells %v, want %s %+v", v, want, n)
		}
	}
}

// compare3 holds Status against the model.
func (x *slice2) compare3(rt *rapid.T, t *testing.T) {
	a := x.v3("Status")
	want := x.code(am.Success)
	if len(x.nodes) == 0 {
		want = am.SearchFailed
	}
	if a.code != want {
		rt.Fatalf("Status: %d %s, want %d", a.code, a.output, want)
	}
	if want != am.Success {
		return
	}
	for _, v := range a.slivers(t) {
		n := x.nodes[get(v, "geni_client_id").(string)]
		if n == nil || get(v, "geni_operational_status") != operational2[n.state] || get(v, "geni_expires") != formatTime(n.expires) ||
			(get(v, "geni_allocation_status") == "geni_allocated") != (n.state == "reserved") {
			rt.Fatalf("Status tells %v, want %+v", v, n)
		}
	}
	if len(a.slivers(t)) != len(x.nodes) {
		rt.Fatalf("Status tells %d slivers, want %d", len(a.slivers(t)), len(x.nodes))
	}
}

func (x *slice2) compareManifest(rt *rapid.T) {
	manifest := x.list2()
	if x.shut || len(x.nodes) == 0 {
		if want := x.code(am.SearchFailed); manifest.code != want {
			rt.Fatalf("ListResources: %d %s, want %d", manifest.code, manifest.output, want)
		}
		return
	}
	if manifest.code != am.Success || manifest.value != get(x.v3("Describe").value, "geni_rspec") || strings.Count(manifest.value.(string), "sliver_id=") != len(x.nodes) {
		rt.Fatalf("ListResources: %d %s\n%v", manifest.code, manifest.output, manifest.value)
	}
}
