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

// Check looks at the metadata, gets everything, gets names nobody has, some at
// once and many in one call, and makes dry runs of making nodes. It changes
// nothing, and finds out when the provider does.
func Check(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := newSuite(ctx, p, o)
	return s.around(s.check)
}

func (s *suite) check() {
	s.begin("look at the metadata")
	s.checkAttributes()
	s.begin("get what there is")
	if !s.checkGet() {
		return
	}
	s.begin("get several at once, and 1,000 names in one call")
	s.checkMany()
	if s.failed() {
		return
	}
	s.begin("make dry runs")
	s.checkNoop()
}

// checkGet tells whether get can be relied on.
func (s *suite) checkGet() bool {
	all, ok := s.everything()
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
	nobody := unheardOf()
	some, err := s.get(append(names[:min(len(names), 5)], nobody)...)
	if err != nil {
		s.wrong(ruleGet, "asked by name: %v", detail(err))
		return false
	}
	switch r := some[nobody]; {
	case r.Err != nil && r.Err.Kind == provider.Unknown && !s.p.Has(provider.AttrEnsure):
	case r.Err != nil:
		s.wrong(ruleGet, "asked for a name nobody has: %v; answer that it is absent", detail(r.Err))
	case !provider.Gone(r.Resource):
		s.wrong(ruleGet, "says that %s is there, a name nobody has; answer that it is absent", nobody)
	}
	return true
}

// checkMany asks several times at once, and for as many names as there can be
// in a call.
func (s *suite) checkMany() {
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if _, err := s.get(unheardOf()); err != nil {
				s.wrong(ruleCalls, "of several gets at once one fails: %v; let them run beside each other", detail(err))
			}
		})
	}
	calls.Wait()
	if _, err := s.get(unheardOfNames(provider.MaxNames)...); err != nil {
		s.wrong(ruleGet, "asked for %d names at once, the most there may be: %v", provider.MaxNames, detail(err))
	}
}

// checkNoop asks what making nodes would do, which must do nothing.
func (s *suite) checkNoop() {
	good := s.making(s.o.Node)
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
	if s.deaf {
		return // more would be made
	}
	bad := s.making(nil)
	both, err := s.set(true, good, bad)
	s.lookAfter(good, bad)
	switch {
	case err != nil:
		s.wrong(ruleErrors, "a component that it does not have fails the whole call: %v; give that resource's entry in changes an error, and do the others", detail(err))
		return
	case both[0].Err != nil && change.Err == nil:
		s.wrong(ruleSet, "a node is refused because another one in the call cannot be made: %v; do every update you can", detail(both[0].Err))
	}
	if !s.deaf {
		s.checkBatch(change)
	}
	if s.o.Node != nil && !s.deaf && !s.failed() {
		s.checkProperties()
	}
}

// checkBatch makes dry runs of as many updates as there can be in a call.
func (s *suite) checkBatch(alone provider.Change) {
	updates := make([]provider.Update, provider.MaxNames)
	for i := range updates {
		updates[i] = s.making(s.o.Node)
	}
	changes, err := s.set(true, updates...)
	s.lookAfter(updates...)
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
		s.wrong(ruleNoop, "asked for %d updates at once, it says nothing of %d; list each in changes, or answer derive: true", len(updates), mute)
	}
}

// dryRun makes a dry run of one update, and looks that nothing came of it.
func (s *suite) dryRun(u provider.Update) (provider.Change, error) {
	changes, err := s.set(true, u)
	seen := s.lookAfter(u)
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
		s.wrong(ruleNoop, "the answer tells no change; list it in changes, or answer derive: true")
	}
	return changes[0], seen
}

// lookAfter looks whether a dry run of updates, whatever it answered, has really
// changed something. What it has made is removed. The error is why nobody knows.
func (s *suite) lookAfter(updates ...provider.Update) error {
	names := make([]string, len(updates))
	for i, u := range updates {
		names[i] = u.Name
	}
	// What is there must be seen and removed also when somebody has interrupted us.
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
			made = append(made, provider.Update{Name: u.Name, Is: r.Resource, Should: removed})
		default:
			changed = u.Name
		}
	}
	if changed == "" && len(made) == 0 {
		return nil
	}
	s.deaf = true
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
	if err := outcome(s.p.Set(ctx, made, false)); err != nil {
		s.note(ruleNoop, "of what a dry run has made not all can be removed: %v; see to %s by hand", detail(err), some(made))
	}
	return nil
}

// some are the first names of what was made.
func some(made []provider.Update) string {
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

// differs tells whether anything that can be set is not the same in both.
func (s *suite) differs(a, b provider.Resource) bool {
	if provider.Gone(a) || provider.Gone(b) {
		return provider.Gone(a) != provider.Gone(b)
	}
	return len(s.writable(provider.Diff(a, b)))+len(s.writable(provider.Diff(b, a))) > 0
}

// writable leaves out what nobody sets.
func (s *suite) writable(r provider.Resource) provider.Resource {
	maps.DeleteFunc(r, func(name string, _ provider.Value) bool { return s.p.Attributes[name].Kind != "rw" })
	return r
}

// sliceURN is the slice of all nodes that are asked for.
const sliceURN = "urn:publicid:IDN+example.org+slice+slice0"

// making asks for the node that may be made, or for one that cannot be there.
func (s *suite) making(node provider.Resource) provider.Update {
	name := unheardOf()
	r := provider.Resource{
		provider.AttrComponent: "no-such-component", provider.AttrPower: provider.On, provider.AttrRestartSerial: "0",
		provider.AttrHostname: "node0", provider.AttrClientID: "node0", provider.AttrSliceURN: sliceURN, provider.AttrSliverURN: "urn:publicid:IDN+example.org+sliver+" + name,
		provider.AttrInterfaces: []string{`{"client_id":"node0:if0","link":"link0","slice":"` + sliceURN + `","addresses":["10.128.0.1/24"],` + asksNothing + `}`},
		provider.AttrSetup:      []string{succeeds, fails},
	}
	maps.Copy(r, node)
	r[provider.AttrName], r[provider.AttrEnsure] = name, provider.Present
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}
	return provider.Update{Name: name, Is: is, Should: r}
}
