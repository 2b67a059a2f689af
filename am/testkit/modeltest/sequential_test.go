package modeltest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"patchbay/am"
)

// part is a sliver for the linearizability checker; from and expires are in seconds. If from is not 0, the sliver begins
// then, after all slivers that have begun have ended.
type part struct {
	urn, client, component string
	made, linked           bool
	from, expires          int64
}

// aheadFrom is the first start of what is reserved ahead.
var aheadFrom = began.Add(20 * 24 * time.Hour)

// state is the site's state for the checker. It is immutable: each call makes a new
// one. Its key contains all of it.
type state struct {
	slices map[string][]part // live slivers, by slice
	shut   map[string]bool
	// leaving counts the released slivers that may still hold a slot, by component.
	leaving map[string]int
	key     string
}

// copy returns a copy whose maps can be changed.
func (s *state) copy() *state {
	return &state{slices: maps.Clone(s.slices), shut: maps.Clone(s.shut), leaving: maps.Clone(s.leaving)}
}

// seal sets the key after a change, and returns s.
func (s *state) seal() *state {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(s.slices)) {
		all := slices.Clone(s.slices[n])
		slices.SortFunc(all, func(x, y part) int { return strings.Compare(x.urn, y.urn) })
		fmt.Fprintf(&b, "%s %v shut %v; ", n, all, s.shut[n])
	}
	for _, c := range slices.Sorted(maps.Keys(s.leaving)) {
		if s.leaving[c] > 0 {
			fmt.Fprintf(&b, "%s %d leaving; ", c, s.leaving[c])
		}
	}
	s.key = b.String()
	return s
}

// kinds are the components of the offer with their sliver types.
var kinds = map[string]string{"pc1": "raw-pc", "pc2": "raw-pc", "pc3": "raw-pc", "pc4": "raw-pc", "host1": "vm", "host2": "vm"}

// free returns the free slots of each component.
func (s *state) free() map[string]int {
	out := map[string]int{}
	for c := range kinds {
		out[c] = capacity(c) - s.leaving[c]
	}
	for _, all := range s.slices {
		for _, x := range all {
			if x.from == 0 {
				out[x.component]--
			}
		}
	}
	return out
}

// freeIn returns the slots of each component that are free from one time to another, at each full hour. Slivers that are shut
// down have no end; they count if frozen is set.
func (s *state) freeIn(from, until int64, frozen bool) map[string]int {
	out := map[string]int{}
	for c := range kinds {
		out[c] = capacity(c)
	}
	for at := from; at < until; at += 3600 {
		left := map[string]int{}
		for name, all := range s.slices {
			for _, x := range all {
				if x.from > 0 && x.from <= at && at < x.expires || frozen && s.shut[name] {
					left[x.component]++
				}
			}
		}
		for c := range kinds {
			out[c] = min(out[c], capacity(c)-left[c])
		}
	}
	return out
}

// isOverbooked reports whether slots are lacking at some time; for frozen see freeIn.
func (s *state) isOverbooked(frozen bool) bool {
	isNegative := func(free map[string]int) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(free)), func(n int) bool { return n < 0 })
	}
	return isNegative(s.free()) || isNegative(s.freeIn(aheadFrom.Unix(), aheadFrom.Unix()+4*3600, frozen))
}

// sequential is the model of a site with one caller at a time.
var sequential = porcupine.Model{
	Init: func() any {
		return (&state{slices: map[string][]part{}, shut: map[string]bool{}, leaving: map[string]int{}}).seal()
	},
	Step: func(from, in, out any) (bool, any) {
		ok, to := from.(*state).step(in.(ask), out.(done))
		return ok, to
	},
	Equal: func(a, b any) bool { return a.(*state).key == b.(*state).key },
	Hash: func(s any) uint64 {
		h := fnv.New64a()
		h.Write([]byte(s.(*state).key))
		return h.Sum64()
	},
	DescribeOperation: func(in, out any) string {
		a, d := in.(ask), out.(done)
		text := fmt.Sprintf("%s → %d", a, d.code)
		for _, x := range d.slivers {
			text += fmt.Sprintf(" %s@%s %.8s from %d until %d", x.client, x.component, uuid(x.urn), x.from, x.expires)
		}
		return text
	},
	DescribeState: func(s any) string { return s.(*state).key },
}

// step reports whether a call may get that answer, and returns the state after it.
func (s *state) step(a ask, d done) (bool, *state) {
	all := s.slices[a.slice]
	if d.code == am.DBError {
		return a.method != "Describe", s // nothing has happened
	}
	is := func(c am.Code) (bool, *state) { return d.code == c, s }
	switch {
	case a.method == "Thaw" && !s.shut[a.slice]:
		return is(am.Refused)
	case a.method == "Thaw":
		to := s.copy()
		delete(to.shut, a.slice)
		return d.code == am.Success, to.seal()
	case a.method == "Shutdown" && s.shut[a.slice]:
		return is(am.Success)
	case s.shut[a.slice]:
		return is(am.Forbidden)
	case a.method == "Allocate":
		return s.allocate(a, d)
	case a.method == "Describe":
		return d.code == am.Success && sameParts(all, d.slivers), s
	case len(all) == 0:
		return is(am.SearchFailed)
	}
	to := s.copy()
	switch a.method {
	case "Shutdown":
		to.shut[a.slice] = true
		if all[0].from > 0 { // what has not begun is released
			delete(to.slices, a.slice)
		}
	case "Delete":
		for _, x := range all {
			if x.made {
				to.leaving[x.component]++
			}
		}
		delete(to.slices, a.slice)
	case "Renew":
		all = slices.Clone(all)
		for i := range all {
			all[i].expires = a.time.Unix()
		}
		to.slices[a.slice] = all
		if slices.ContainsFunc(all, func(x part) bool { return x.expires <= x.from }) || to.isOverbooked(false) || d.code == am.Refused && to.isOverbooked(true) {
			return d.code == am.BadArgs || d.code == am.Refused, s
		}
	case "Provision":
		all = slices.Clone(all)
		some := false
		for i := range all {
			if all[i].made {
				continue
			}
			some = true
			n := slices.IndexFunc(d.slivers, func(x part) bool { return x.urn == all[i].urn })
			if d.code == am.Success && n < 0 {
				return false, s
			}
			if n >= 0 {
				all[i].made, all[i].expires = true, d.slivers[n].expires
			}
		}
		if !some {
			return is(am.SearchFailed)
		}
		to.slices[a.slice] = all
	}
	return d.code == am.Success, to.seal()
}

func (s *state) allocate(a ask, d done) (bool, *state) {
	has := func(n askedNode) int {
		return slices.IndexFunc(s.slices[a.slice], func(x part) bool { return x.client == n.client })
	}
	added, r := a.nodes, room{free: s.free(), kind: kinds, cleaning: s.leaving}
	if !a.start.IsZero() {
		r = room{free: s.freeIn(a.start.Unix(), a.time.Unix(), true), kind: kinds}
	}
	var refusals []am.Code
	if a.change {
		var p plainSlice
		for _, x := range s.slices[a.slice] {
			p.nodes = append(p.nodes, &plainNode{client: x.client, kind: kinds[x.component], component: x.component, linked: x.linked})
		}
		added, refusals = p.judgeChange(a.nodes, r)
	}
	for _, n := range added {
		if has(n) >= 0 {
			return d.code == am.Exists, s
		}
	}
	if d.code != am.Success {
		ok, codes := r.fits(added)
		return (!ok || len(refusals) > 0) && slices.Contains(append(refusals, codes...), d.code), s
	}
	if len(d.slivers) != len(a.nodes) {
		return false, s
	}
	to := s.copy()
	list := slices.Clone(s.slices[a.slice])
	for i, x := range d.slivers {
		if !a.start.IsZero() && (x.from != a.start.Unix() || x.expires != a.time.Unix()) || a.start.IsZero() && x.from != 0 {
			return false, s
		}
		if kinds[x.component] != a.nodes[i].kind || a.nodes[i].where != "" && a.nodes[i].where != x.component || x.client != a.nodes[i].client {
			return false, s
		}
		if k := has(a.nodes[i]); k >= 0 {
			was := list[k]
			list[k].linked = a.nodes[i].linked
			if was.linked = x.linked; was != x {
				return false, s
			}
			continue
		}
		if x.from == 0 && to.free()[x.component] < 1 && to.leaving[x.component] > 0 {
			to.leaving[x.component]-- // a released sliver has been removed meanwhile
		}
		list = append(list, x)
		to.slices[a.slice] = list
	}
	to.slices[a.slice] = list
	return !to.isOverbooked(false), to.seal()
}

// sameParts reports whether two lists contain the same slivers.
func sameParts(a, b []part) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}
