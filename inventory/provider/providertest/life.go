package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/inventory/provider"
)

const (
	ruleSet   = "set"
	ruleState = "Slow work"
)

// errEnd ends a life of which a step went wrong; the finding is written down.
var errEnd = errors.New("cannot go on")

// Life makes the node of the options, restarts it, gives it an account, turns
// it off and on, removes it, and looks after each step whether get says so.
// The node is removed whatever happened.
func Life(ctx context.Context, p *provider.Provider, o Options) []Finding {
	if o.Wait == 0 {
		o.Wait = 10 * time.Minute
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	s := &suite{ctx: ctx, p: p, o: o}
	name := unheardOf()
	users := []string{`{"login":"alice","urn":"urn:publicid:IDN+example.org+user+alice","keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice"]}`}
	steps := []struct {
		does   string
		should provider.Resource
	}{
		{"make it", s.wanted(name)},
		{"restart it", provider.Resource{provider.AttrRestartSerial: "1"}},
		{"give it an account", provider.Resource{provider.AttrUsers: users}},
		{"switch it off", provider.Resource{provider.AttrPower: provider.Off}},
		{"switch it on", provider.Resource{provider.AttrPower: provider.On}},
	}
	for _, step := range steps {
		if s.step(step.does, name, step.should) != nil {
			break
		}
	}
	s.ctx = context.WithoutCancel(ctx) // nothing may be left
	if s.step("remove it", name, provider.Resource{provider.AttrEnsure: provider.Absent}) == nil {
		s.removeAgain(name)
	}
	return s.findings
}

// step asks for should and waits until it is so.
func (s *suite) step(does, name string, should provider.Resource) error {
	for attribute := range should {
		if !s.p.Has(attribute) {
			delete(should, attribute)
		}
	}
	if len(should) == 0 {
		return nil // not a provider that can
	}
	is, err := s.look(does, name)
	if err != nil {
		return err
	}
	if len(provider.Diff(is, should)) == 0 {
		return nil
	}
	begun := time.Now()
	changes, err := s.p.Set(s.ctx, []provider.Update{{Name: name, Is: is, Should: should}}, false)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.wrong(ruleState, "%s: set took more than %v; accept the work, go on in the background and report state changing", does, time.Since(begun).Round(time.Second))
		return errEnd
	case err != nil:
		s.wrong(ruleSet, "%s: %v", does, detail(err))
		return errEnd
	case changes[0].Err != nil:
		s.wrong(ruleSet, "%s: %v", does, detail(changes[0].Err))
		return errEnd
	case len(changes[0].Is) == 0:
		s.wrong(ruleSet, "%s: the answer tells no change; list it in changes, or answer derive: true", does)
	}
	return s.await(does, name, should)
}

func (s *suite) look(does, name string) (provider.Resource, error) {
	got, err := s.p.Get(s.ctx, []string{name})
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
		left := provider.Diff(r, should)
		state := provider.ObservedNode(r).State
		switch {
		case len(left) == 0 && (provider.Gone(r) || state == provider.StateReady):
			if !provider.Gone(r) {
				s.checkNode(name, r)
			}
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
		select {
		case <-time.After(s.o.Poll):
		case <-s.ctx.Done():
			s.wrong(ruleState, "%s: %v", does, s.ctx.Err())
			return errEnd
		}
	}
}

func said(state string) string {
	if state == "" {
		return "absent"
	}
	return fmt.Sprintf("in state %s", state)
}

// removeAgain asks to remove what is not there, which must succeed.
func (s *suite) removeAgain(name string) {
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Present}
	should := provider.Resource{provider.AttrEnsure: provider.Absent}
	changes, err := s.p.Set(s.ctx, []provider.Update{{Name: name, Is: is, Should: should}}, false)
	if err != nil {
		s.wrong(ruleSet, "remove it once more: %v", detail(err))
	} else if e := changes[0].Err; e != nil {
		s.wrong(ruleSet, "remove it once more: %v; removing what is not there succeeds", detail(e))
	}
}
