package work

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

const (
	// driftEvent is the word of the journal for a sliver that was found otherwise than
	// promised.
	driftEvent = "drift"
	driftText  = "its provider shows it otherwise than promised"
	// mendAgain is how long after a sliver was brought back that may be done again.
	mendAgain = time.Hour
)

// mends remembers when settled slivers were brought back to what was promised.
type mends struct {
	mu sync.Mutex
	at map[string]time.Time // by the sliver's key
}

func (m *mends) lately(u urn.URN) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[u.Key()]
	return ok && time.Since(at) < mendAgain
}

func (m *mends) note(u urn.URN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	maps.DeleteFunc(m.at, func(_ string, at time.Time) bool { return time.Since(at) >= mendAgain })
	m.at[u.Key()] = time.Now()
}

// drifted names what of a settled sliver is not as it was promised: whether it is on,
// and who may log in. What cannot change while a node is there is not compared.
func drifted(p Provider, s *am.Sliver, res provider.Result) []string {
	if res.Err != nil || provider.Gone(res.Resource) || provider.ObservedNode(res.Resource).State != provider.StateReady {
		return nil
	}
	want := wanted(p, &item{sliver: *s, component: s.ComponentName})
	maps.DeleteFunc(want, func(name string, _ provider.Value) bool {
		return name != provider.AttrPower && name != provider.AttrUsers
	})
	return slices.Sorted(maps.Keys(provider.Diff(res.Resource, want)))
}

// mend promises a sliver anew that has drifted. One that does so again soon is left as
// it is, for then somebody else has a hand in it, and the sliver tells. left is what
// its error says when nothing went wrong.
func (r *Runner) mend(v *store.View, cs *store.ChangeSet, s *am.Sliver, drift []string, left string) {
	what := fmt.Sprintf("%s (%s)", driftText, strings.Join(drift, ", "))
	told := s.Error != "" && s.Error != left
	switch {
	case told && !slices.Contains(drift, provider.AttrPower):
		return // it tells already why its users are not as promised
	case told && r.mends.lately(s.URN):
		return
	case r.mends.lately(s.URN):
		s.Error = what + ", again within an hour; it is left so for now"
		return
	}
	goal := am.GoalStop
	switch {
	case !slices.Contains(drift, provider.AttrPower):
		goal = am.GoalUsers
	case s.Desired.On:
		goal = am.GoalStart
	}
	s.Error = what + "; it is being put right"
	s.Generation++
	cs.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: goal, Since: v.Now()})
	cs.Log(am.JournalEntry{At: v.Now(), Event: driftEvent, Slice: s.Slice, Slivers: []urn.URN{s.URN}, Text: what})
}
