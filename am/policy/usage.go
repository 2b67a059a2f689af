package policy

import (
	"sync"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Amount is a number of nodes, and the cores and the disk (in MiB) that their sliver
// types take.
type Amount struct{ Nodes, Cores, Disk int64 }

// Held has the amounts that a user, a slice and the slice's project hold now.
type Held struct{ User, Slice, Project Amount }

// without returns a minus b, but at least 0 in each field.
func (a Amount) without(b Amount) Amount {
	return Amount{max(0, a.Nodes-b.Nodes), max(0, a.Cores-b.Cores), max(0, a.Disk-b.Disk)}
}

// Usage counts the amounts that users, slices and projects hold. The store calls it for each
// change set, so the counts include changes that are staged but not committed yet. All methods
// may be called concurrently.
type Usage struct {
	mu       sync.RWMutex // guards all
	holds    map[string]hold
	users    map[string]*tally // by key
	slices   map[string]*tally
	projects map[string]*tally
	undo     []change // since the last Publish or Rollback
}

// tally is the amount held by one user, slice or project. The maps of Usage contain only tallies
// above zero.
type tally struct {
	Amount
	key string
}

type hold struct {
	user, slice, project *tally
	cores, disk          int64
}

// change is an entry of the undo log: the previous share of a sliver.
type change struct {
	sliver string
	before hold
	held   bool
}

// NewUsage returns a Usage that is empty until the store stages its slivers.
func NewUsage() *Usage {
	return &Usage{holds: make(map[string]hold), users: make(map[string]*tally), slices: make(map[string]*tally), projects: make(map[string]*tally)}
}

// Held returns the amounts that a user, a slice and its project hold, including staged changes.
func (u *Usage) Held(user, slice urn.URN) Held {
	u.mu.RLock()
	defer u.mu.RUnlock()
	amount := func(t *tally) Amount {
		if t == nil {
			return Amount{}
		}
		return t.Amount
	}
	return Held{amount(u.users[user.Key()]), amount(u.slices[slice.Key()]), amount(u.projects[lower(slice.Authority)])}
}

// Stage applies the slivers of a change set. A released sliver is not counted, even
// while its component is still being cleaned.
func (u *Usage) Stage(cs store.ChangeSet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range cs.Delete {
		if k.Kind == store.Slivers {
			u.remove(k.ID)
		}
	}
	for _, r := range cs.Put {
		if s, ok := r.Value.(am.Sliver); ok {
			u.set(r.Key.ID, &s)
		}
	}
}

// Publish makes the staged changes permanent.
func (u *Usage) Publish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.undo = nil
}

// Rollback undoes the staged changes.
func (u *Usage) Rollback() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := len(u.undo) - 1; i >= 0; i-- {
		c := u.undo[i]
		if h, ok := u.holds[c.sliver]; ok {
			u.count(h, -1)
			delete(u.holds, c.sliver)
		}
		if c.held {
			u.holds[c.sliver] = c.before
			u.count(c.before, 1)
		}
	}
	u.undo = nil
}

// set replaces the share of a sliver. It compares only amounts, since the user and the slice of a
// sliver never change.
func (u *Usage) set(id string, s *am.Sliver) {
	if s.Status.Allocation == am.Unallocated {
		u.remove(id)
		return
	}
	before, held := u.holds[id]
	if held && before.cores == s.Amount.Cores && before.disk == s.Amount.Disk {
		return
	}
	u.undo = append(u.undo, change{id, before, held})
	if held {
		u.count(before, -1)
	}
	h := hold{
		user:    tallyOf(u.users, s.Creator.Key()),
		slice:   tallyOf(u.slices, s.Slice.Key()),
		project: tallyOf(u.projects, lower(s.Slice.Authority)),
		cores:   s.Amount.Cores,
		disk:    s.Amount.Disk,
	}
	u.holds[id] = h
	u.count(h, 1)
}

func (u *Usage) remove(id string) {
	if before, held := u.holds[id]; held {
		u.undo = append(u.undo, change{id, before, true})
		delete(u.holds, id)
		u.count(before, -1)
	}
}

func tallyOf(all map[string]*tally, key string) *tally {
	if t := all[key]; t != nil {
		return t
	}
	return &tally{key: key}
}

// count adds the share h to its tallies, or subtracts it. A tally leaves its map at zero, and a
// later sliver gets a new tally. Rollback undoes the latest change first. So a key never has two
// tallies above zero.
func (u *Usage) count(h hold, sign int64) {
	for _, x := range [...]struct {
		in map[string]*tally
		t  *tally
	}{{u.users, h.user}, {u.slices, h.slice}, {u.projects, h.project}} {
		x.t.Nodes += sign
		x.t.Cores += sign * h.cores
		x.t.Disk += sign * h.disk
		if x.t.Nodes > 0 {
			x.in[x.t.key] = x.t
		} else {
			delete(x.in, x.t.key)
		}
	}
}
