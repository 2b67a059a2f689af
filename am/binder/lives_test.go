package binder

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory"
)

// lives are slivers as a plain map, beside an index that learns of the same.
type lives struct {
	x         *Index
	v         *inventory.Inventory
	slivers   map[string]am.Sliver // by key
	published map[string]am.Sliver
}

func newLives(v *inventory.Inventory) *lives {
	return &lives{NewIndex(v), v, map[string]am.Sliver{}, map[string]am.Sliver{}}
}

// pick is one of the slivers, if there are any.
func (l *lives) pick(t *rapid.T) (am.Sliver, bool) {
	ids := slices.Sorted(maps.Keys(l.slivers))
	if len(ids) == 0 {
		return am.Sliver{}, false
	}
	return l.slivers[rapid.SampledFrom(ids).Draw(t, "sliver")], true
}

// publish makes what was staged lasting.
func (l *lives) publish() {
	l.x.Publish()
	l.published = maps.Clone(l.slivers)
}

// steps are actions and, beside them, what befalls slivers whoever made them;
// sites are the inventories that may be read.
func (l *lives) steps(sites []*inventory.Inventory, actions map[string]func(*rapid.T)) map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"release": func(t *rapid.T) {
			if s, ok := l.pick(t); ok {
				s.Status.Allocation = am.Unallocated
				l.slivers[store.SliverKey(s.URN).ID] = s
				stage(l.x, s)
			}
		},
		"forget": func(t *rapid.T) {
			if s, ok := l.pick(t); ok {
				k := store.SliverKey(s.URN)
				delete(l.slivers, k.ID)
				l.x.Stage(store.ChangeSet{Delete: []store.Key{k}})
			}
		},
		"publish": func(*rapid.T) { l.publish() },
		"rollback": func(*rapid.T) {
			l.x.Rollback()
			l.slivers = maps.Clone(l.published)
		},
		"reload": func(t *rapid.T) {
			l.publish()
			l.v = rapid.SampledFrom(sites).Draw(t, "site")
			l.x.SetInventory(l.v)
		},
	}
	maps.Copy(all, actions)
	return all
}
