package providertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

// Check checks the metadata, gets all resources, unused names, several at once and many
// in one call, and makes dry runs that create nodes. It changes nothing, and reports if
// the provider does.
func Check(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := newSuite(ctx, p, o)
	return s.run(s.check)
}

// check makes the checks of Check, and ends early if later checks cannot work.
func (s *suite) check() {
	s.progress("check the metadata")
	s.checkAttributes()
	s.progress("get all resources")
	if !s.checkGet() {
		return
	}
	s.progress("get several at once, and 1,000 names in one call")
	s.checkMany()
	if s.failed() {
		return
	}
	s.progress("make dry runs")
	s.checkNoop()
}

// checkGet tests get, and reports whether further checks can rely on it.
func (s *suite) checkGet() bool {
	all, ok := s.getAll()
	if !ok {
		return false
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if e := all[name].Err; e != nil {
			s.note(ruleGet, "%s: %v", name, detail(e))
			continue
		}
		names = append(names, name)
		s.checkNode(name, all[name].Resource)
	}
	unused := unusedName()
	some, err := s.get(append(names[:min(len(names), 5)], unused)...)
	if err != nil {
		s.wrong(ruleGet, "asked by name: %v", detail(err))
		return false
	}
	switch r := some[unused]; {
	case r.Err != nil && r.Err.Kind == provider.Unknown && !s.p.Has(provider.AttrEnsure):
	case r.Err != nil:
		s.wrong(ruleGet, "asked for an unused name: %v; answer that it is absent", detail(r.Err))
	case !provider.Gone(r.Resource):
		s.wrong(ruleGet, "reports that %s exists, an unused name; answer that it is absent", unused)
	}
	return true
}

// checkMany makes four gets at once, and one with the maximum number of names.
func (s *suite) checkMany() {
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if _, err := s.get(unusedName()); err != nil {
				s.wrong(ruleCalls, "of several gets at once one fails: %v; let them run beside each other", detail(err))
			}
		})
	}
	calls.Wait()
	if _, err := s.get(unusedNames(provider.MaxNames)...); err != nil {
		s.wrong(ruleGet, "asked for %d names at once, the most there may be: %v", provider.MaxNames, detail(err))
	}
}

// checkNoop makes dry runs that create nodes: one, an impossible one beside it, and many.
// They must change nothing.
func (s *suite) checkNoop() {
	good := s.newUpdate(s.o.Node)
	change, err := s.dryRun(good)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.wrong(ruleSet, "actions leaves it out, so nothing can be made or removed; offer it")
		return
	case err != nil:
		return
	case s.o.Node != nil && change.Err != nil:
		s.wrong(ruleNoop, "it refuses to make the node that may be made: %v", detail(change.Err))
	}
	if s.ignoresNoop {
		return // otherwise it would create more nodes
	}
	bad := s.newUpdate(nil)
	both, err := s.set(true, good, bad)
	s.checkNothingChanged(good, bad)
	switch {
	case err != nil:
		s.wrong(ruleErrors, "a component that it does not have fails the whole call: %v; give that resource's entry in changes an error, and do the others", detail(err))
		return
	case both[0].Err != nil && change.Err == nil:
		s.wrong(ruleSet, "a node is refused because another one in the call cannot be made: %v; do every update you can", detail(both[0].Err))
	}
	if !s.ignoresNoop {
		s.checkBatch(change)
	}
	if s.o.Node != nil && !s.ignoresNoop && !s.failed() {
		s.checkProperties()
	}
}

// checkBatch makes a dry run of the maximum number of updates in a call. alone is the answer
// to a dry run of one such update.
func (s *suite) checkBatch(alone provider.Change) {
	updates := make([]provider.Update, provider.MaxNames)
	for i := range updates {
		updates[i] = s.newUpdate(s.o.Node)
	}
	changes, err := s.set(true, updates...)
	s.checkNothingChanged(updates...)
	if err != nil {
		s.wrong(ruleNoop, "asked for %d updates at once, the most there may be: %v", len(updates), detail(err))
		return
	}
	mute := 0
	for _, c := range changes[:len(updates)] {
		if c.Err == nil && len(c.Is) == 0 {
			mute++
		}
	}
	if mute > 0 && len(alone.Is) > 0 {
		s.wrong(ruleNoop, "asked for %d updates at once, it reports nothing about %d; list each in changes, or answer derive: true", len(updates), mute)
	}
}

// dryRun makes a dry run of one update, and checks that it changed nothing. The error means
// that the call or the get after it failed.
func (s *suite) dryRun(u provider.Update) (provider.Change, error) {
	changes, err := s.set(true, u)
	seen := s.checkNothingChanged(u)
	if err != nil {
		switch e, ok := errors.AsType[*provider.Error](err); {
		case errors.Is(err, errors.ErrUnsupported):
		case ok && e.Err == nil:
			s.wrong(ruleErrors, "asked for one node, it reports an error for the whole call: %v; give the entry of that node in changes the error, so that others are done", detail(err))
		default:
			s.wrong(ruleNoop, "%v", detail(err))
		}
		return provider.Change{}, err
	}
	if c := changes[0]; c.Err == nil && len(c.Is) == 0 {
		s.wrong(ruleNoop, "the answer has no change; list it in changes, or answer derive: true")
	}
	return changes[0], seen
}

// checkNothingChanged records a finding if a dry run of updates has changed anything, and
// removes the nodes that it created. The error means that get failed.
func (s *suite) checkNothingChanged(updates ...provider.Update) error {
	names := make([]string, len(updates))
	for i, u := range updates {
		names[i] = u.Name
	}
	// This must also run after an interruption.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	after, err := s.p.Get(ctx, names)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			s.wrong(ruleNoop, "get afterwards: %v", detail(err))
		}
		return err
	}
	var made []provider.Update
	changed := ""
	for _, u := range updates {
		switch r := after[u.Name]; {
		case r.Err != nil || !s.differs(u.Is, r.Resource):
		case provider.Gone(u.Is):
			made = append(made, provider.Update{Name: u.Name, Is: r.Resource, Should: shouldBeAbsent})
		default:
			changed = u.Name
		}
	}
	if changed == "" && len(made) == 0 {
		return nil
	}
	s.ignoresNoop = true
	const remedy = "obey ral.noop: answer, and do nothing"
	switch len(made) {
	case 0:
		s.wrong(ruleNoop, "it has really changed %s; %s", changed, remedy)
		return nil
	case 1:
		s.wrong(ruleNoop, "it has really made %s; %s", made[0].Name, remedy)
	default:
		s.wrong(ruleNoop, "it has really made %d nodes; %s", len(made), remedy)
	}
	if err := firstError(s.p.Set(ctx, made, false)); err != nil {
		s.note(ruleNoop, "of what a dry run has made not all can be removed: %v; remove %s by hand", detail(err), firstNames(made))
	}
	return nil
}

// firstNames returns the names of the first updates.
func firstNames(made []provider.Update) string {
	const shown = 5
	var names []string
	for _, u := range made[:min(len(made), shown)] {
		names = append(names, u.Name)
	}
	if more := len(made) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// differs reports whether any attribute that can be set differs.
func (s *suite) differs(a, b provider.Resource) bool {
	if provider.Gone(a) || provider.Gone(b) {
		return provider.Gone(a) != provider.Gone(b)
	}
	return len(s.writable(provider.Diff(a, b)))+len(s.writable(provider.Diff(b, a))) > 0
}

// writable removes from r the attributes that are not both read and written.
func (s *suite) writable(r provider.Resource) provider.Resource {
	maps.DeleteFunc(r, func(name string, _ provider.Value) bool { return s.p.Attributes[name].Kind != "rw" })
	return r
}

// sliceURN is the slice of all requested nodes.
const sliceURN = "urn:publicid:IDN+example.org+slice+slice0"

// newUpdate returns an update that creates the given node, or, without one, a node on a
// component that cannot exist.
func (s *suite) newUpdate(node provider.Resource) provider.Update {
	name := unusedName()
	r := provider.Resource{
		provider.AttrComponent: "no-such-component", provider.AttrPower: provider.On, provider.AttrRestartSerial: "0",
		provider.AttrHostname: "node0", provider.AttrClientID: "node0", provider.AttrSliceURN: sliceURN, provider.AttrSliverURN: "urn:publicid:IDN+example.org+sliver+" + name,
		provider.AttrInterfaces: []string{`{"client_id":"node0:if0","link":"link0","slice":"` + sliceURN + `","addresses":["10.128.0.1/24"],` + noProperties + `}`},
		provider.AttrSetup:      []string{succeeds, fails},
	}
	maps.Copy(r, node)
	r[provider.AttrName], r[provider.AttrEnsure] = name, provider.Present
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}
	return provider.Update{Name: name, Is: is, Should: r}
}
