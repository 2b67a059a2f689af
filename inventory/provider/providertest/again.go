package providertest

import (
	"context"
	"errors"
	"time"

	"patchbay/inventory/provider"
)

// makeAgain requests the state that the node already has, as the manager does after a
// crash. The set must succeed.
func (s *suite) makeAgain(u provider.Update) error {
	const does = stepMake + " again"
	s.progress(does)
	if err := s.repeat(does, "a set of the state that the node already has must succeed", u); err != nil {
		return err
	}
	return s.await(does, u.Name, u.Should)
}

// removeAgain requests the removal of a node that was already removed. The set must succeed, and
// a get of all resources must not report the node.
func (s *suite) removeAgain(name string) {
	const does = stepRemove + " again"
	s.progress(does)
	is := provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Present}
	if s.repeat(does, "removing a missing node must succeed", provider.Update{Name: name, Is: is, Should: shouldBeAbsent}) != nil {
		return
	}
	all, ok := s.getAll()
	if r := all[name]; ok && r.Err == nil && !provider.Gone(r.Resource) {
		s.wrong(ruleGet, "a get of all resources reports %s, but a get by name reports it as absent", name)
	}
}

// checkListed requires that a get of all resources reports the existing node.
func (s *suite) checkListed(name string) {
	all, ok := s.getAll()
	if r := all[name]; ok && all != nil && (r.Err != nil || provider.Gone(r.Resource)) {
		s.wrong(ruleGet, "a get of all resources leaves out %s, but a get by name reports it", name)
	}
}

// repeat makes an update that changes nothing. If the set fails, it records a finding that ends
// with remedy, and returns errEnd.
func (s *suite) repeat(does, remedy string, u provider.Update) error {
	if err := firstError(s.set(false, u)); err != nil {
		s.wrong(ruleSet, "%s: %v; %s", does, detail(err), remedy)
		return errEnd
	}
	return nil
}

// testKills creates and removes a node, and kills the provider several times during both.
func (s *suite) testKills(u provider.Update) error {
	if err := s.interrupt(stepMake, u); err != nil {
		return err
	}
	u.Should = shouldBeAbsent
	if err := s.interrupt(stepRemove, u); err != nil {
		return err
	}
	return s.await(stepRemove+" after it was killed", u.Name, shouldBeAbsent)
}

// interrupt starts an update several times and kills the provider, each time after a longer
// duration. Finally it lets the update finish. A get before each update must succeed.
func (s *suite) interrupt(does string, u provider.Update) error {
	s.progress(does + ", and kill the provider meanwhile")
	begun := time.Now()
	if _, err := s.getNode(does, u.Name); err != nil {
		return err
	}
	took := max(time.Since(begun), 5*time.Millisecond) // duration of a short call
	for _, after := range []time.Duration{took / 2, took, 2 * took, 4 * took, s.p.Timeout("set")} {
		if err := s.interruptAfter(does, u, after); err != nil {
			return err
		}
	}
	return nil
}

// interruptAfter kills the provider when the duration d has passed since the start of the
// update. If d is the time limit of a set, the update must succeed.
func (s *suite) interruptAfter(does string, u provider.Update, d time.Duration) error {
	got, err := s.get(u.Name)
	if err == nil && got[u.Name].Err != nil {
		err = got[u.Name].Err
	}
	if err != nil {
		s.wrong(ruleFiles, "%s: a set was killed in the middle, and get then fails: %v; write a new file and rename it, so that get never reads half of it", does, detail(err))
		return errEnd
	}
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	err = firstError(s.p.Set(ctx, []provider.Update{{Name: u.Name, Is: got[u.Name].Resource, Should: u.Should}}, false))
	if errors.Is(err, context.DeadlineExceeded) && d < s.p.Timeout("set") {
		return nil // killed, as intended
	}
	if err != nil {
		s.wrong(ruleFiles, "%s: a set was killed in the middle, and the next one fails: %v; files that a killed call leaves behind must not make the next call fail", does, detail(err))
		return errEnd
	}
	return nil
}

// clear removes a node after a failed step, also after an interruption. From then on s.ctx does not end with the
// caller's context.
func (s *suite) clear(name string) {
	s.progress("clean up")
	s.ctx = context.WithoutCancel(s.ctx)
	s.quiet = true
	err := s.step(stepRemove, name, shouldBeAbsent)
	s.quiet = false
	if err != nil {
		s.note(ruleSet, "node %s could not be removed after the failed step; remove it by hand", name)
	}
}
