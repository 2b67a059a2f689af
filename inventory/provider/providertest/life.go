package providertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

// errEnd ends Life after a failed step. The step's finding is already recorded.
var errEnd = errors.New("cannot continue")

// Accounts that Life creates and removes.
const (
	alice = `{"login":"alice","urn":"urn:publicid:IDN+example.org+user+alice","keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice"]}`
	bob   = `{"login":"bob","urn":"urn:publicid:IDN+example.org+user+bob","keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA bob"]}`
)

// Life runs Check and, if that finds no error, tests all changes of the node in the options.
// It creates the node, creates it again, begins and repeats stages of its setup, restarts it,
// adds two accounts, removes one of them, changes links and steps in place, switches the node off and on, and
// removes it twice.
// Before each step Life makes a dry run; the answers to the dry run and to the step must be
// the same. After the step get must report the new state. Then Life creates and removes another node on the same
// component, and kills the provider several times during both.
//
// Life removes all nodes that it created, and reports nodes that it cannot remove. When ctx
// ends, Life cleans up and returns only notes, because further findings would not be the
// provider's fault.
func Life(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := newSuite(ctx, p, o)
	return s.run(func() {
		s.check()
		switch {
		case s.failed() || s.interrupted():
		case p.Type != provider.TypeNode:
			s.wrong(ruleAttributes, "the type is %s; only resources of type node can be tested", p.Type)
		default:
			s.runLife()
		}
	})
}

// runLife does the steps of Life with one node, and the checks that belong to a step. After a step that fails, it
// removes the node and ends.
func (s *suite) runLife() {
	made := s.newUpdate(s.o.Node)
	if s.acceptsProperties {
		made = withProperties(made)
	}
	setup := made.Should.List(provider.AttrSetup)
	set := func(attribute string, v provider.Value) provider.Resource { return provider.Resource{attribute: v} }
	for _, step := range []struct {
		does   string
		should provider.Resource
	}{
		{stepMake, made.Should},
		{"restart the node", set(provider.AttrRestartSerial, "1")},
		{"add two accounts", set(provider.AttrUsers, []string{alice, bob})},
		{stepUsers, set(provider.AttrUsers, []string{bob})},
		{stepOff, set(provider.AttrPower, provider.Off)},
		{"switch the node on", set(provider.AttrPower, provider.On)},
		{stepRemove, shouldBeAbsent},
	} {
		err := s.step(step.does, made.Name, step.should)
		if err == nil && step.does == stepMake {
			if r, seen := s.getNode(step.does, made.Name); seen == nil {
				s.checkShaping(made.Name, r)
			}
			s.checkListed(made.Name)
			if err = s.makeAgain(made); err == nil {
				err = s.checkServices(made.Name, setup)
			}
			if err == nil {
				err = s.checkStages(made.Name, setup)
			}
		}
		if err == nil && step.does == stepUsers {
			setup, err = s.checkInPlace(made)
		}
		if err == nil && step.does == stepOff {
			err = s.checkStop(made.Name, setup)
		}
		if err != nil || s.interrupted() {
			s.clear(made.Name)
			return
		}
	}
	s.removeAgain(made.Name)
	if killed := s.newUpdate(s.o.Node); !s.failed() && !s.interrupted() && s.testKills(killed) != nil {
		s.clear(killed.Name)
	}
}

// Names of steps that are used in several places.
const (
	stepMake   = "create the node"
	stepUsers  = "remove one account"
	stepOff    = "switch the node off"
	stepRemove = "remove the node"
)

var shouldBeAbsent = provider.Resource{provider.AttrEnsure: provider.Absent}

// step requests the attributes in expected, and waits until get reports them. It skips attributes
// that the provider does not declare.
func (s *suite) step(does, name string, expected provider.Resource) error {
	expected = maps.Clone(expected)
	maps.DeleteFunc(expected, func(attribute string, _ provider.Value) bool { return !s.p.Has(attribute) })
	if len(expected) == 0 {
		return nil // the provider lacks the attribute
	}
	if err := s.request(does, name, expected); err != nil {
		return err
	}
	return s.await(does, name, expected)
}

// request makes a dry run and then a set of the attributes in expected that differ, and compares the
// answers.
func (s *suite) request(does, name string, expected provider.Resource) error {
	is, err := s.getNode(does, name)
	if err != nil {
		return err
	}
	u := provider.Update{Name: name, Is: is, Should: provider.Diff(is, expected)}
	if len(u.Should) == 0 {
		return nil
	}
	s.progress(does)
	var dry *provider.Change
	if !s.ignoresNoop {
		if c, err := s.dryRun(u); err == nil && !s.ignoresNoop {
			dry = &c
		}
	}
	c, err := s.apply(does, u)
	if err != nil {
		return err
	}
	switch {
	case c.Err != nil:
		s.wrong(ruleSet, "%s: %v", does, detail(c.Err))
		return errEnd
	case s.checkChange(does, u, c) && dry != nil:
		s.compareDryRun(does, u, *dry, c)
	}
	return nil
}

// betweenGets is the pause between two gets while a set runs.
const betweenGets = 10 * time.Millisecond

// apply makes a set, and returns the change in its answer. While the set runs, it gets the node repeatedly, and each
// get must succeed.
func (s *suite) apply(does string, u provider.Update) (provider.Change, error) {
	var beside sync.WaitGroup
	done := make(chan struct{})
	beside.Go(func() {
		for {
			if _, err := s.p.Get(s.ctx, []string{u.Name}); err != nil {
				s.wrong(ruleCalls, "%s: a get that runs at the same time as the set fails: %v; write a new file and rename it, so that get never reads half of it", does, detail(err))
				return
			}
			select {
			case <-done:
				return
			case <-time.After(betweenGets):
			}
		}
	})
	begun := time.Now()
	changes, err := s.set(false, u)
	close(done)
	beside.Wait()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.wrong(ruleState, "%s: set took more than %v; accept the work, continue in the background and report state changing", does, time.Since(begun).Round(time.Second))
		return provider.Change{}, errEnd
	case err != nil:
		s.wrong(ruleSet, "%s: %v", does, detail(err))
		return provider.Change{}, errEnd
	}
	return changes[0], nil
}

// checkChange records a finding and returns false if c is not the requested change.
func (s *suite) checkChange(does string, u provider.Update, c provider.Change) bool {
	if len(c.Is) == 0 {
		s.wrong(ruleSet, "%s: the answer has no change; list it in changes, or answer derive: true", does)
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(u.Should)) {
		is, ok := c.Is[name]
		switch {
		case s.p.Attributes[name].Kind != "rw":
			continue
		case !ok:
			s.wrong(ruleSet, "%s: changes lack %s, which was requested; list it with is and was, or answer derive: true", does, name)
		case !equal(name, is, u.Should[name]):
			s.wrong(ruleSet, "%s: changes report that %s is %q, but %q was requested; report an error instead", does, name, is, u.Should[name])
		case !equal(name, c.Was[name], u.Is[name]):
			s.wrong(ruleSet, "%s: changes report that %s was %q, but get reported %q", does, name, c.Was[name], u.Is[name])
		default:
			continue
		}
		return false
	}
	return true
}

// compareDryRun records a finding if the dry run and the set of an update had different answers.
func (s *suite) compareDryRun(does string, u provider.Update, dry, c provider.Change) {
	if dry.Err != nil {
		s.wrong(ruleNoop, "%s: the dry run answered the error %q, but the real run succeeded; give both the same answer", does, detail(dry.Err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(u.Should)) {
		if s.p.Attributes[name].Kind == "rw" && !equal(name, dry.Is[name], c.Is[name]) {
			s.wrong(ruleNoop, "%s: the dry run answered that %s becomes %q, but in the real run it became %q; give both the same answer", does, name, dry.Is[name], c.Is[name])
		}
	}
}

// equal reports whether two values of an attribute are equal for the manager.
func equal(attribute string, a, b provider.Value) bool {
	as, bs := provider.Resource{}, provider.Resource{}
	if a != nil {
		as[attribute] = a
	}
	if b != nil {
		bs[attribute] = b
	}
	if attribute == provider.AttrEnsure {
		return provider.Gone(as) == provider.Gone(bs)
	}
	return len(provider.Diff(as, bs)) == 0 && len(provider.Diff(bs, as)) == 0
}

// getNode gets a node. It returns an empty resource for an error of kind Unknown. For any other error it records
// a finding and returns errEnd.
func (s *suite) getNode(does, name string) (provider.Resource, error) {
	got, err := s.get(name)
	if err != nil {
		s.wrong(ruleGet, "%s: %v", does, detail(err))
		return nil, errEnd
	}
	if e := got[name].Err; e != nil && e.Kind != provider.Unknown {
		s.wrong(ruleGet, "%s: %v", does, detail(e))
		return nil, errEnd
	}
	return got[name].Resource, nil
}

// await polls until the node is ready and has the attributes in expected. If the node fails,
// the time ends or the suite is interrupted, it records a finding and returns errEnd.
func (s *suite) await(does, name string, expected provider.Resource) error {
	for end := time.Now().Add(s.o.Wait); ; {
		r, err := s.getNode(does, name)
		if err != nil {
			return err
		}
		if does == stepRemove {
			s.checkUninstall(r)
		}
		left := s.writable(provider.Diff(r, expected))
		state := provider.ObservedNode(r).State
		switch {
		case len(left) == 0 && (provider.Gone(r) || state == provider.StateReady):
			s.checkEndpoints(name, r)
			return nil
		case state == provider.StateFailed:
			s.wrong(ruleState, "%s: the node is in state failed: %s", does, provider.ObservedNode(r).Message)
			return errEnd
		case state == provider.StateReady:
			s.wrong(ruleState, "%s: the node is ready, but get does not report %v", does, left)
			return errEnd
		case time.Now().After(end):
			s.wrong(ruleState, "%s: still %s after %v", does, stateText(state), s.o.Wait)
			return errEnd
		}
		if !s.pause() {
			s.wrong(ruleState, "%s: %v", does, s.ctx.Err())
			return errEnd
		}
	}
}

// checkEndpoints checks a node in its desired state. It must report the attribute "login"
// while it is on, and must not report it while it is off.
func (s *suite) checkEndpoints(name string, r provider.Resource) {
	s.checkNode(name, r)
	switch endpoints := r.List(provider.AttrLogin); {
	case provider.Gone(r) || !s.p.Has(provider.AttrLogin):
	case r.Text(provider.AttrPower) == provider.Off && len(endpoints) > 0:
		s.wrong(ruleAttributes, "login of %s is reported while the node is switched off; report login only while users can log in", name)
	case provider.PowerOn(r) && len(endpoints) == 0:
		s.note(ruleAttributes, "%s is ready and switched on, but login is not reported, so no user can log in", name)
	}
}

func stateText(state string) string {
	if state == "" {
		return "absent"
	}
	return fmt.Sprintf("in state %s", state)
}
