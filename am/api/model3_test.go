package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// plain is what a sliver is to somebody who has only read the API.
type plain struct {
	urn, state string
	expires    time.Time
	wish       time.Time
	accounts   map[string]string // user → comments of the keys
	works      bool              // something is promised and not yet done
}

// plainSlice is a slice of theirs, in the order in which they were allocated.
type plainSlice struct {
	slivers []*plain
	cells   map[[2]string]expected // by row and state
	now     func() time.Time
	until   time.Time // of the credential
}

// ask is a call with its options.
type ask struct {
	row    string
	named  []string // nil for the whole slice
	effort bool
	alap   bool
	time   time.Time         // Renew's, or geni_end_time
	users  map[string]string // user → comment of the key, or ""
}

// answer says what comes of a call: its code, and who is refused under best
// effort. It changes the slice accordingly.
func (p *plainSlice) answer(a ask) (code am.Code, failed map[string]bool) {
	var of []*plain
	failed = map[string]bool{}
	isMissing := false
	for _, u := range a.named {
		i := slices.IndexFunc(p.slivers, func(x *plain) bool { return x.urn == u })
		if i < 0 {
			failed[u], isMissing = true, true
		} else if !slices.Contains(of, p.slivers[i]) {
			of = append(of, p.slivers[i])
		}
	}
	isAction := strings.HasPrefix(a.row, "geni_")
	if a.named == nil {
		for _, x := range p.slivers {
			if isAction && x.state == "allocated" || a.row == "Provision" && x.state != "allocated" {
				continue
			}
			of = append(of, x)
		}
		if isAction && len(of) == 0 && len(p.slivers) > 0 {
			return am.Unsupported, nil
		}
	}
	if len(of) == 0 || isMissing && !a.effort {
		return am.SearchFailed, nil
	}
	if (a.row == "Renew" || a.row == "Provision" && !a.time.IsZero()) && !a.time.After(p.now()) {
		return am.BadArgs, nil
	}
	var able []*plain
	for _, x := range of {
		c := p.cells[[2]string{a.row, x.state}].sliver
		if a.row == "Renew" && a.time.After(p.latest(x)) && !a.alap {
			c = am.Refused
		}
		if c == am.Success {
			able = append(able, x)
			continue
		}
		failed[x.urn] = true
		if code == am.Success {
			code = c
		}
	}
	if code != am.Success && (!a.effort || len(able) == 0) {
		return code, nil
	}
	for _, x := range able {
		p.change(a, x)
	}
	p.slivers = slices.DeleteFunc(p.slivers, func(x *plain) bool { return x.state == "gone" })
	return am.Success, failed
}

func (p *plainSlice) latest(x *plain) time.Time {
	if limit := p.now().Add(2 * time.Hour); x.state == "allocated" && limit.Before(p.until) {
		return limit
	}
	return p.until
}

func (p *plainSlice) change(a ask, x *plain) {
	switch a.row {
	case "Renew":
		end := a.time
		if end.After(p.latest(x)) {
			end = p.latest(x)
		}
		if !a.alap || end.After(x.expires) {
			x.expires = end
		}
		x.wish = time.Time{}
	case "Provision":
		x.expires = p.now().Add(24 * time.Hour)
		wish := a.time
		if wish.IsZero() && x.wish.After(p.now()) {
			wish = x.wish
		}
		if !wish.IsZero() {
			x.expires = wish
		}
		if x.expires.After(p.until) {
			x.expires = p.until
		}
		if short := p.until.Add(-10 * time.Minute); wish.IsZero() && x.expires.After(short) {
			x.expires = short
		}
		fallthrough
	case "geni_update_users":
		for u, key := range a.users {
			delete(x.accounts, u)
			if key != "" {
				x.accounts[u] = key
			}
		}
	}
	to := p.cells[[2]string{a.row, x.state}].to
	if to.Allocation == am.Unallocated {
		x.state = "gone"
		return
	}
	// A cancelled update is done all the same, and changes nothing then.
	x.works = x.works || to != column(x.state)
	x.state = stateOf(to)
}

// TestModelOfOptions makes random calls with random options on a slice, and
// compares what the aggregate tells with what the tables of this package's
// tests and a plain reading of the API say. It starts in random states.
func TestModelOfOptions(t *testing.T) {
	b := newBench(t)
	cells := map[[2]string]expected{}
	for _, e := range expectations(t) {
		cells[[2]string{e.row, e.state}] = e
	}
	users := []string{b.alice.urn.String(), bob, otherBob, carol}
	var states []string
	for _, e := range expectations(t) {
		if e.row == "Status" {
			states = append(states, e.state)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		b.pass(began.Sub(b.clock()))
		p := &plainSlice{cells: cells, now: b.clock, until: began.Add(20 * 24 * time.Hour)}
		var start []am.Sliver
		for _, s := range b.all {
			s = in(s, rapid.SampledFrom(states).Draw(rt, "state"))
			x := &plain{urn: s.URN.String(), expires: s.Expires, accounts: map[string]string{}, state: stateOf(s.Status)}
			if s.Status.Allocation == am.Provisioned && rapid.Bool().Draw(rt, "with bob") {
				s.Desired.Accounts = []am.Account{{Login: "bob", User: urn.MustParse(bob), Keys: keys[:1]}}
				x.accounts[bob] = "k0"
			}
			start, p.slivers = append(start, s), append(p.slivers, x)
		}
		b.put(start...)
		names := 0
		moment := func(rt *rapid.T) time.Time {
			return b.clock().Add(time.Duration(rapid.SampledFrom([]int{-60, 5, 60, 119, 121, 3000, 40000}).Draw(rt, "minutes")) * time.Minute)
		}
		call := func(rt *rapid.T, row string) {
			a := ask{row: row, effort: rapid.Bool().Draw(rt, "best effort")}
			if row == "Delete" || rapid.IntRange(0, 3).Draw(rt, "named") > 0 {
				known := []string{missing}
				for range 3 {
					for _, x := range p.slivers {
						known = append(known, x.urn)
					}
				}
				a.named = rapid.SliceOfN(rapid.SampledFrom(known), 1, 4).Draw(rt, "slivers")
			}
			o := opts()
			if a.effort {
				o = append(o, opt("geni_best_effort", true))
			}
			if row == "Renew" {
				if a.alap = rapid.Bool().Draw(rt, "alap"); a.alap {
					o = append(o, opt("geni_extend_alap", true))
				}
				a.time = moment(rt)
			}
			if row == "Provision" && rapid.Bool().Draw(rt, "wish") {
				a.time = moment(rt)
				o = append(o, opt("geni_end_time", formatTime(a.time)))
			}
			if row == "geni_update_users" || row == "Provision" {
				a.users = map[string]string{}
				list := []xmlrpc.Value{}
				for _, u := range rapid.SliceOfDistinct(rapid.SampledFrom(users), rapid.ID[string]).Draw(rt, "users") {
					if k := rapid.IntRange(-1, 3).Draw(rt, "key"); k < 0 {
						a.users[u] = ""
						list = append(list, user(u))
					} else {
						a.users[u] = fmt.Sprint("k", k)
						list = append(list, user(u, keys[k]))
					}
				}
				o = append(o, opt("geni_users", list))
			}
			targets := strs(b.slice)
			if a.named != nil {
				targets = strs(a.named...)
			}
			params := []xmlrpc.Value{targets, creds(b.cred)}
			method := row
			switch {
			case row == "Renew":
				params = append(params, formatTime(a.time))
			case strings.HasPrefix(row, "geni_"):
				method, params = "PerformOperationalAction", append(params, row)
			}
			got := b.alice.call(method, append(params, o)...)
			code, failed := p.answer(a)
			if got.code != code {
				rt.Fatalf("%+v: code %d %q, want %d", a, got.code, got.output, code)
			}
			if code != am.Success {
				return
			}
			for _, s := range got.slivers(t) {
				u := get(s, "geni_sliver_urn").(string)
				if (get(s, "geni_error") != "") != failed[u] {
					rt.Fatalf("%+v: %v, want an error %v", a, s, failed[u])
				}
				delete(failed, u)
			}
			if len(failed) > 0 {
				rt.Fatalf("%+v: nothing is told of %v", a, failed)
			}
		}
		allocate := func(rt *rapid.T) {
			var nodes []string
			for range rapid.IntRange(1, 2).Draw(rt, "nodes") {
				names++
				nodes = append(nodes, fmt.Sprintf(`<node client_id="n%d"><sliver_type name="vm"/></node>`, names))
			}
			o, wish := opts(), time.Time{}
			if rapid.Bool().Draw(rt, "wish") {
				wish = moment(rt)
				o = append(o, opt("geni_end_time", formatTime(wish)))
			}
			a := b.alice.call("Allocate", b.slice, creds(b.cred), request(nodes...), o)
			if late := !wish.IsZero() && !wish.After(b.clock()); late || a.code != am.Success {
				if late != (a.code == am.BadArgs) {
					rt.Fatalf("Allocate until %v: %d %s", wish, a.code, a.output)
				}
				return
			}
			end := b.clock().Add(10 * time.Minute)
			if !wish.IsZero() && wish.Before(end) {
				end = wish
			}
			for _, s := range a.slivers(t) {
				p.slivers = append(p.slivers, &plain{urn: get(s, "geni_sliver_urn").(string), state: "allocated", expires: end, wish: wish, accounts: map[string]string{}})
			}
		}
		rows := []string{
			"Allocate", "the work is done", "time passes", "Provision", "Renew", "Delete", "geni_start", "geni_stop", "geni_restart",
			"geni_update_users", "geni_updating_users_cancel",
		}
		for range rapid.IntRange(2, 8).Draw(rt, "steps") {
			switch row := rapid.SampledFrom(rows).Draw(rt, "call"); row {
			case "Allocate":
				allocate(rt)
			case "the work is done":
				b.settle()
				p.settle()
			case "time passes":
				b.pass(time.Duration(rapid.SampledFrom([]int{1, 5, 60, 600}).Draw(rt, "minutes")) * time.Minute)
				p.slivers = slices.DeleteFunc(p.slivers, func(x *plain) bool { return !b.clock().Before(x.expires) })
			default:
				call(rt, row)
			}
			b.compare3(rt, p)
		}
	})
}

// settle does the work that calls have left.
func (p *plainSlice) settle() {
	for _, x := range p.slivers {
		if e := p.cells[[2]string{"done", x.state}]; x.works && !e.refused {
			x.state = stateOf(e.to)
		}
		x.works = false
	}
}

// stateOf is the name of a column.
func stateOf(s am.Status) string {
	for _, name := range []string{"allocated", "pending"} {
		if column(name) == s {
			return name
		}
	}
	return strings.TrimPrefix(string(s.Operational), "geni_")
}

// compare3 holds what is stored of the slice against the plain one.
func (b *bench) compare3(rt *rapid.T, p *plainSlice) {
	all, err := b.store.Slivers()
	if err != nil {
		rt.Fatal(err)
	}
	live := map[string]am.Sliver{}
	for _, x := range all {
		if x.Live(b.clock()) {
			live[x.URN.String()] = x
		}
	}
	if len(live) != len(p.slivers) {
		rt.Fatalf("%d slivers, want %d", len(live), len(p.slivers))
	}
	for _, x := range p.slivers {
		is := live[x.urn]
		if is.Status != column(x.state) || !is.Expires.Equal(x.expires) {
			rt.Fatalf("%v until %v, want %+v", is.Status, is.Expires, *x)
		}
		accounts := map[string]string{}
		for _, a := range is.Desired.Accounts {
			k := strings.Join(a.Keys, "+")
			accounts[a.User.String()] = k[strings.LastIndex(k, " ")+1:]
		}
		if !maps.Equal(accounts, x.accounts) {
			rt.Fatalf("accounts %v, want %v", accounts, x.accounts)
		}
	}
}
