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

// errEnd ends a life of which a step went wrong; the finding is written down.
var errEnd = errors.New("cannot go on")

// Accounts that a life gives and takes.
const (
	alice = `{"login":"alice","urn":"urn:publicid:IDN+example.org+user+alice","keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice"]}`
	bob   = `{"login":"bob","urn":"urn:publicid:IDN+example.org+user+bob","keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA bob"]}`
)

// Life is Check and, if that finds nothing wrong, the whole life of the node of
// the options: it is made, made once more, restarted, given accounts and left
// one of them, switched off and on, and removed twice. Before each step there is
// a dry run, whose answer must be that of the step, and after it get must say
// so. Then another node is made on the same component while the provider is
// killed in the middle, and that is removed, too.
//
// Nothing is left, whatever happened; where that cannot be, a finding says so.
// When ctx ends it clears up and returns; what is found then says nothing of the
// provider, and only notes are told.
func Life(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := newSuite(ctx, p, o)
	return s.around(func() {
		s.check()
		switch {
		case s.failed() || s.over():
		case p.Type != provider.TypeNode:
			s.wrong(ruleAttributes, "the type is %s; only the life of a node is known", p.Type)
		default:
			s.live()
		}
	})
}

func (s *suite) live() {
	made := s.making(s.o.Node)
	if s.shapes {
		made = shaped(made)
	}
	set := func(attribute string, v provider.Value) provider.Resource { return provider.Resource{attribute: v} }
	for _, step := range []struct {
		does   string
		should provider.Resource
	}{
		{making, made.Should},
		{"restart it", set(provider.AttrRestartSerial, "1")},
		{"give it two accounts", set(provider.AttrUsers, []string{alice, bob})},
		{"take one account away", set(provider.AttrUsers, []string{bob})},
		{"switch it off", set(provider.AttrPower, provider.Off)},
		{"switch it on", set(provider.AttrPower, provider.On)},
		{removing, removed},
	} {
		err := s.step(step.does, made.Name, step.should)
		if err == nil && step.does == making {
			if r, seen := s.look(step.does, made.Name); seen == nil {
				s.checkShaping(made.Name, r)
			}
			s.listed(made.Name)
			if err = s.makeAgain(made); err == nil {
				err = s.checkServices(made.Name, made.Should.List(provider.AttrSetup))
			}
		}
		if err != nil || s.over() {
			s.clear(made.Name)
			return
		}
	}
	s.removeAgain(made.Name)
	if killed := s.making(s.o.Node); !s.failed() && !s.over() && s.kill(killed) != nil {
		s.clear(killed.Name)
	}
}

// Steps that are spoken of in several places.
const (
	making   = "make it"
	removing = "remove it"
)

var removed = provider.Resource{provider.AttrEnsure: provider.Absent}

// step asks for should and waits until it is so.
func (s *suite) step(does, name string, should provider.Resource) error {
	should = maps.Clone(should)
	maps.DeleteFunc(should, func(attribute string, _ provider.Value) bool { return !s.p.Has(attribute) })
	if len(should) == 0 {
		return nil // not a provider that can
	}
	is, err := s.look(does, name)
	if err != nil {
		return err
	}
	u := provider.Update{Name: name, Is: is, Should: provider.Diff(is, should)}
	if len(u.Should) == 0 {
		return nil
	}
	s.begin(does)
	var dry *provider.Change
	if !s.deaf {
		if c, err := s.dryRun(u); err == nil && !s.deaf {
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
		s.compare(does, u, *dry, c)
	}
	return s.await(does, name, should)
}

// apply makes the update for real, and looks at it meanwhile.
func (s *suite) apply(does string, u provider.Update) (provider.Change, error) {
	var beside sync.WaitGroup
	done := make(chan struct{})
	beside.Go(func() {
		for err := error(nil); err == nil; {
			select {
			case <-done:
				return
			default:
			}
			if _, err = s.p.Get(s.ctx, []string{u.Name}); err == nil {
				continue
			}
			s.wrong(ruleCalls, "%s: a get that runs beside the set fails: %v; write a new file and rename it, so that it is whole whenever it is read", does, detail(err))
		}
	})
	begun := time.Now()
	changes, err := s.set(false, u)
	close(done)
	beside.Wait()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.wrong(ruleState, "%s: set took more than %v; accept the work, go on in the background and report state changing", does, time.Since(begun).Round(time.Second))
		return provider.Change{}, errEnd
	case err != nil:
		s.wrong(ruleSet, "%s: %v", does, detail(err))
		return provider.Change{}, errEnd
	}
	return changes[0], nil
}

// checkChange tells whether an answer says what was asked.
func (s *suite) checkChange(does string, u provider.Update, c provider.Change) bool {
	if len(c.Is) == 0 {
		s.wrong(ruleSet, "%s: the answer tells no change; list it in changes, or answer derive: true", does)
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(u.Should)) {
		is, ok := c.Is[name]
		switch {
		case s.p.Attributes[name].Kind != "rw":
			continue
		case !ok:
			s.wrong(ruleSet, "%s: changes do not tell %s, which was asked for; list it with is and was, or answer derive: true", does, name)
		case !equal(name, is, u.Should[name]):
			s.wrong(ruleSet, "%s: changes tell that %s is %q, and asked for was %q; what cannot be so is an error", does, name, is, u.Should[name])
		case !equal(name, c.Was[name], u.Is[name]):
			s.wrong(ruleSet, "%s: changes tell that %s was %q, but get said %q", does, name, c.Was[name], u.Is[name])
		default:
			continue
		}
		return false
	}
	return true
}

// compare looks whether a dry run has answered what the real one did.
func (s *suite) compare(does string, u provider.Update, dry, c provider.Change) {
	if dry.Err != nil {
		s.wrong(ruleNoop, "%s: it answered the error %q, and the real run succeeded; answer what a real run would", does, detail(dry.Err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(u.Should)) {
		if s.p.Attributes[name].Kind == "rw" && !equal(name, dry.Is[name], c.Is[name]) {
			s.wrong(ruleNoop, "%s: it answered that %s becomes %q, and in the real run it became %q; answer what a real run would", does, name, dry.Is[name], c.Is[name])
		}
	}
}

// equal compares two values of an attribute as the manager does.
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

func (s *suite) look(does, name string) (provider.Resource, error) {
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

// await polls until the node is as it should be, has failed, or time is up.
func (s *suite) await(does, name string, should provider.Resource) error {
	for end := time.Now().Add(s.o.Wait); ; {
		r, err := s.look(does, name)
		if err != nil {
			return err
		}
		left := s.writable(provider.Diff(r, should))
		state := provider.ObservedNode(r).State
		switch {
		case len(left) == 0 && (provider.Gone(r) || state == provider.StateReady):
			s.checkEndpoints(name, r)
			return nil
		case state == provider.StateFailed:
			s.wrong(ruleState, "%s: it failed: %s", does, provider.ObservedNode(r).Message)
			return errEnd
		case state == provider.StateReady:
			s.wrong(ruleState, "%s: it is ready, but get does not say %v", does, left)
			return errEnd
		case time.Now().After(end):
			s.wrong(ruleState, "%s: still %s after %v", does, said(state), s.o.Wait)
			return errEnd
		}
		if !s.pause() {
			s.wrong(ruleState, "%s: %v", does, s.ctx.Err())
			return errEnd
		}
	}
}

// checkEndpoints looks at a node that is as it should be, on or off.
func (s *suite) checkEndpoints(name string, r provider.Resource) {
	s.checkNode(name, r)
	switch endpoints := r.List(provider.AttrLogin); {
	case provider.Gone(r) || !s.p.Has(provider.AttrLogin):
	case r.Text(provider.AttrPower) == provider.Off && len(endpoints) > 0:
		s.wrong(ruleAttributes, "login of %s is told while it is switched off; tell it only while it can be used", name)
	case provider.PowerOn(r) && len(endpoints) == 0:
		s.note(ruleAttributes, "%s is ready and switched on, but login is not told, so nobody can log in", name)
	}
}

func said(state string) string {
	if state == "" {
		return "absent"
	}
	return fmt.Sprintf("in state %s", state)
}
