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
	// driftEvent is the journal's event for a sliver that differs from its desired state.
	driftEvent = "drift"
	driftText  = "it differs from its desired state"
	// repairInterval is the least time between two repairs of one sliver.
	repairInterval = time.Hour
)

type repairs struct {
	mu sync.Mutex
	at map[string]time.Time // by the sliver's key
}

func (m *repairs) isRecent(u urn.URN) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[u.Key()]
	return ok && time.Since(at) < repairInterval
}

func (m *repairs) note(u urn.URN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	maps.DeleteFunc(m.at, func(_ string, at time.Time) bool { return time.Since(at) >= repairInterval })
	m.at[u.Key()] = time.Now()
}

// driftOf compares only power and users, because other attributes cannot change while a node
// exists.
func driftOf(p Provider, s *am.Sliver, res provider.Result) []string {
	if res.Err != nil || provider.Gone(res.Resource) || provider.ObservedNode(res.Resource).State != provider.StateReady {
		return nil
	}
	want := wanted(p, &item{sliver: *s, component: s.ComponentName})
	maps.DeleteFunc(want, func(name string, _ provider.Value) bool {
		return name != provider.AttrPower && name != provider.AttrUsers
	})
	return slices.Sorted(maps.Keys(provider.Diff(res.Resource, want)))
}

// isDrift reports whether a sliver's error text is about drift. Earlier versions wrote
// another text.
func isDrift(text string) bool {
	return strings.HasPrefix(text, driftText) || strings.HasPrefix(text, "its provider shows it otherwise than promised")
}

// repair makes the runner reconcile a sliver that has drifted. If the sliver drifts again within an
// hour of a repair, another program probably changes the resource. Then repair only sets the
// sliver's error text. usualError is the error text that the sliver would have without drift.
func (r *Runner) repair(v *store.View, cs *store.ChangeSet, s *am.Sliver, drift []string, usualError string) {
	what := fmt.Sprintf("%s (%s)", driftText, strings.Join(drift, ", "))
	explained := s.Error != "" && s.Error != usualError
	switch {
	case explained && !slices.Contains(drift, provider.AttrPower):
		return // the sliver's error already explains why the users differ
	case explained && r.repairs.isRecent(s.URN):
		return
	case r.repairs.isRecent(s.URN):
		s.Error = what + ", again within an hour after a repair; it is not repaired now"
		return
	}
	goal := am.GoalStop
	switch {
	case !slices.Contains(drift, provider.AttrPower):
		goal = am.GoalUsers
	case s.Desired.On:
		goal = am.GoalStart
	}
	s.Error = what + "; it is being repaired"
	s.Generation++
	cs.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: goal, Since: v.Now()})
	cs.Log(am.JournalEntry{At: v.Now(), Event: driftEvent, Slice: s.Slice, Slivers: []urn.URN{s.URN}, Text: what})
}
