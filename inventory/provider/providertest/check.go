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

// Check checks the metadata. Then it gets all resources, an unused name, several names in
// parallel calls, and many names in one call. Last it makes dry runs that request new nodes.
// Check changes nothing, and reports a finding if a dry run changes something.
func Check(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := newSuite(ctx, p, o)
	return s.run(s.check)
}

// check makes all checks that change nothing. It ends early if a failed check prevents the later ones.
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

// checkGet checks a get of all resources, of some and of an unused name. It reports whether get works well enough for
// further checks.
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
		s.wrong(ruleGet, "a get by name fails: %v", detail(err))
		return false
	}
	switch r := some[unused]; {
	case r.Err != nil && r.Err.Kind == provider.Unknown && !s.p.Has(provider.AttrEnsure):
	case r.Err != nil:
		s.wrong(ruleGet, "a get of an unused name fails: %v; answer that it is absent", detail(r.Err))
	case !provider.Gone(r.Resource):
		s.wrong(ruleGet, "a get reports that %s exists, which is an unused name; answer that it is absent", unused)
	}
	return true
}

// checkMany makes several gets at once, and one with the maximal number of names.
func (s *suite) checkMany() {
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if _, err := s.get(unusedName()); err != nil {
				s.wrong(ruleCalls, "one of several parallel gets fails: %v; let gets run in parallel", detail(err))
			}
		})
	}
	calls.Wait()
	if _, err := s.get(unusedNames(provider.MaxNames)...); err != nil {
		s.wrong(ruleGet, "a get of %d names, which is the maximum, fails: %v", provider.MaxNames, detail(err))
	}
}

// checkNoop makes three dry runs, which must change nothing: one new node; this node and an
// impossible one together; and many new nodes.
func (s *suite) checkNoop() {
	good := s.newUpdate(s.o.Node)
	change, err := s.dryRun(good)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.wrong(ruleSet, "the key actions of the metadata leaves set out, so no node can be created or removed; add set")
		return
	case err != nil:
		return
	case s.o.Node != nil && change.Err != nil:
		s.wrong(ruleNoop, "it refuses to create the node that this test uses: %v", detail(change.Err))
	}
	if s.ignoresNoop {
		return // otherwise the provider would create more nodes
	}
	bad := s.newUpdate(nil)
	both, err := s.set(true, good, bad)
	s.checkNothingChanged(good, bad)
	switch {
	case err != nil:
		s.wrong(ruleErrors, "a node on an unknown component makes the whole call fail: %v; report the error in the node's entry of changes, and do the other updates", detail(err))
		return
	case both[0].Err != nil && change.Err == nil:
		s.wrong(ruleSet, "a node is refused because another node in the call cannot be created: %v; do every update that is possible", detail(both[0].Err))
	}
	if !s.ignoresNoop {
		s.checkBatch(change)
	}
	if s.o.Node != nil && !s.ignoresNoop && !s.failed() {
		s.checkProperties()
		s.checkSteps()
	}
}

// checkBatch makes a dry run of the maximal number of updates. The parameter single is the
// change that a dry run of one such update reported.
func (s *suite) checkBatch(single provider.Change) {
	updates := make([]provider.Update, provider.MaxNames)
	for i := range updates {
		updates[i] = s.newUpdate(s.o.Node)
	}
	changes, err := s.set(true, updates...)
	s.checkNothingChanged(updates...)
	if err != nil {
		s.wrong(ruleNoop, "a dry run of %d updates, which is the maximum, fails: %v", len(updates), detail(err))
		return
	}
	mute := 0
	for _, c := range changes[:len(updates)] {
		if c.Err == nil && len(c.Is) == 0 {
			mute++
		}
	}
	if mute > 0 && len(single.Is) > 0 {
		s.wrong(ruleNoop, "a dry run of %d updates reports nothing about %d of them; list each in changes, or answer derive: true", len(updates), mute)
	}
}

// dryRun makes a dry run of an update, checks that it changed nothing, and returns the change in the answer. The error
// means that the call or the get after it failed.
func (s *suite) dryRun(u provider.Update) (provider.Change, error) {
	changes, err := s.set(true, u)
	seen := s.checkNothingChanged(u)
	if err != nil {
		switch e, ok := errors.AsType[*provider.Error](err); {
		case errors.Is(err, errors.ErrUnsupported):
		case ok && e.Err == nil:
			s.wrong(ruleErrors, "a dry run of one node reports an error for the whole call: %v; report the error in the node's entry of changes, so that other updates are done", detail(err))
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

// checkNothingChanged records a finding if the dry run of updates has changed anything. It
// removes the nodes that the dry run created. The error means that get failed.
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
			s.wrong(ruleNoop, "a get after the dry run fails: %v", detail(err))
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
	const remedy = "if ral.noop is true, answer and change nothing"
	switch len(made) {
	case 0:
		s.wrong(ruleNoop, "a dry run has really changed %s; %s", changed, remedy)
		return nil
	case 1:
		s.wrong(ruleNoop, "a dry run has really created %s; %s", made[0].Name, remedy)
	default:
		s.wrong(ruleNoop, "a dry run has really created %d nodes; %s", len(made), remedy)
	}
	if err := firstError(s.p.Set(ctx, made, false)); err != nil {
		s.note(ruleNoop, "not all nodes that a dry run created can be removed: %v; remove %s by hand", detail(err), firstNames(made))
	}
	return nil
}

// firstNames returns the names of the first five updates, and the number of the others.
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

// differs reports whether two resources differ in attributes of kind rw.
func (s *suite) differs(a, b provider.Resource) bool {
	if provider.Gone(a) || provider.Gone(b) {
		return provider.Gone(a) != provider.Gone(b)
	}
	return len(s.writable(provider.Diff(a, b)))+len(s.writable(provider.Diff(b, a))) > 0
}

// writable removes from r all attributes except those of kind rw.
func (s *suite) writable(r provider.Resource) provider.Resource {
	maps.DeleteFunc(r, func(name string, _ provider.Value) bool { return s.p.Attributes[name].Kind != "rw" })
	return r
}

const sliceURN = "urn:publicid:IDN+example.org+slice+slice0"

// newUpdate returns an update that creates the given node under an unused name. If node is
// nil, the node's component cannot exist.
func (s *suite) newUpdate(node provider.Resource) provider.Update {
	name := unusedName()
	r := provider.Resource{
		provider.AttrComponent: "no-such-component", provider.AttrPower: provider.On, provider.AttrRestartSerial: "0",
		provider.AttrHostname: "node0", provider.AttrClientID: "node0", provider.AttrSliceURN: sliceURN, provider.AttrSliverURN: "urn:publicid:IDN+example.org+sliver+" + name,
		provider.AttrInterfaces: []string{`{"client_id":"node0:if0","link":"link0","slice":"` + sliceURN + `","addresses":["10.128.0.1/24"],` + noProperties + `}`},
	}
	maps.Copy(r, node)
	r[provider.AttrSetup], r[provider.AttrSetupStage] = s.steps(name), "0"
	r[provider.AttrName], r[provider.AttrEnsure] = name, provider.Present
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}
	return provider.Update{Name: name, Is: is, Should: r}
}
