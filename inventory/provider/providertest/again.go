package providertest

import (
	"context"
	"errors"
	"time"

	"patchbay/inventory/provider"
)

// makeAgain asks for what is so already, as after a crash.
func (s *suite) makeAgain(u provider.Update) error {
	const does = "make it once more"
	s.begin(does)
	if err := s.repeat(does, "asking for what is so already succeeds", u); err != nil {
		return err
	}
	return s.await(does, u.Name, u.Should)
}

// removeAgain asks to remove what is not there, which must succeed.
func (s *suite) removeAgain(name string) {
	const does = "remove it once more"
	s.begin(does)
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Present}
	if s.repeat(does, "removing what is not there succeeds", provider.Update{Name: name, Is: is, Should: removed}) != nil {
		return
	}
	all, ok := s.everything()
	if r := all[name]; ok && r.Err == nil && !provider.Gone(r.Resource) {
		s.wrong(ruleGet, "asked for everything, it tells of %s, which it calls absent when asked by name", name)
	}
}

// listed asks for everything, which must tell of a node that is there.
func (s *suite) listed(name string) {
	all, ok := s.everything()
	if r := all[name]; ok && all != nil && (r.Err != nil || provider.Gone(r.Resource)) {
		s.wrong(ruleGet, "asked for everything, it leaves out %s, of which it tells when asked by name", name)
	}
}

func (s *suite) repeat(does, remedy string, u provider.Update) error {
	if err := outcome(s.set(false, u)); err != nil {
		s.wrong(ruleSet, "%s: %v; %s", does, detail(err), remedy)
		return errEnd
	}
	return nil
}

// kill makes a node and removes it again while the provider is killed in the
// middle of either.
func (s *suite) kill(u provider.Update) error {
	if err := s.interrupt(making, u); err != nil {
		return err
	}
	u.Should = removed
	if err := s.interrupt(removing, u); err != nil {
		return err
	}
	return s.await(removing+" after it was killed", u.Name, removed)
}

// interrupt begins an update several times and kills the provider each time a
// little later, and then lets it end. Between them get must answer.
func (s *suite) interrupt(does string, u provider.Update) error {
	s.begin(does + ", and kill it in the middle")
	begun := time.Now()
	if _, err := s.look(does, u.Name); err != nil {
		return err
	}
	took := max(time.Since(begun), 5*time.Millisecond) // of a small call
	for _, after := range []time.Duration{took / 2, took, 2 * took, 4 * took, s.p.Timeout("set")} {
		if err := s.begun(does, u, after); err != nil {
			return err
		}
	}
	return nil
}

// begun lets an update run for d; in all the time a set has, it must end.
func (s *suite) begun(does string, u provider.Update, d time.Duration) error {
	got, err := s.get(u.Name)
	if err == nil && got[u.Name].Err != nil {
		err = got[u.Name].Err
	}
	if err != nil {
		s.wrong(ruleFiles, "%s: a set was killed in the middle, and get then fails: %v; write a new file and rename it, so that it is whole whenever it is read", does, detail(err))
		return errEnd
	}
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	err = outcome(s.p.Set(ctx, []provider.Update{{Name: u.Name, Is: got[u.Name].Resource, Should: u.Should}}, false))
	if errors.Is(err, context.DeadlineExceeded) && d < s.p.Timeout("set") {
		return nil // killed, as it was to be
	}
	if err != nil {
		s.wrong(ruleFiles, "%s: a set was killed in the middle, and the next one fails: %v; nothing that a killed call leaves behind may be in the way of the next", does, detail(err))
		return errEnd
	}
	return nil
}

// clear removes a node of which a step went wrong, as well as that can be done.
func (s *suite) clear(name string) {
	s.begin("clear up")
	s.ctx = context.WithoutCancel(s.ctx)
	s.quiet = true
	err := s.step(removing, name, removed)
	s.quiet = false
	if err != nil {
		s.note(ruleSet, "what is left of node %s after that could not be removed; see to it by hand", name)
	}
}
