package work

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

const (
	// pollName is the name of a resource that no provider has. A poll is a get of this name.
	pollName = "00000000-0000-4000-8000-000000000000"
	// maxPolls is the maximum number of polls of one provider that run at the same time. A slow
	// provider is polled again before it has answered, so that its answers come about as often
	// as those of a fast provider.
	maxPolls = 4
)

// Polled is the result of polling a provider.
type Polled struct {
	Provider string
	// Answered is the time when the provider last answered, or was first polled if it has not
	// answered.
	Answered time.Time
	// Silent means that the provider has not answered for too long. Err is the error of the
	// poll that ended last.
	Silent bool
	Err    error
}

type polls struct {
	mu         sync.Mutex
	byProvider map[string]*polled // by the provider's name
}

type polled struct {
	Polled
	running int
	limit   time.Duration // after this time without an answer the provider is silent
	logged  bool          // whether its silence was logged
}

func (p *polled) isSilent() bool { return time.Since(p.Answered) > p.limit }

// Polled returns the poll results of all providers that the inventory or a sliver names,
// sorted by name. It returns none until the runner polls providers.
func (r *Runner) Polled() []Polled {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	var all []Polled
	for _, p := range r.polls.byProvider {
		p.Silent = p.isSilent()
		all = append(all, p.Polled)
	}
	slices.SortFunc(all, func(a, b Polled) int { return cmp.Compare(a.Provider, b.Provider) })
	return all
}

// Silent returns the time when a provider last answered. silent reports whether that is too
// long ago.
func (r *Runner) Silent(name string) (lastAnswer time.Time, silent bool) {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	p := r.polls.byProvider[name]
	if p == nil {
		return time.Time{}, false
	}
	return p.Answered, p.isSilent()
}

// poll polls each provider periodically until ctx ends. A provider that hangs does not
// delay the others, and is polled again meanwhile.
func (r *Runner) poll(ctx context.Context) {
	t := time.NewTicker(r.limits.Poll)
	defer t.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		for _, name := range r.startPolls() {
			asking.Go(func() { r.pollOnce(ctx, name) })
		}
		r.logSilence()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// startPolls forgets providers that are no longer needed, and returns the names of the
// providers to poll now.
func (r *Runner) startPolls() (due []string) {
	names := r.providerNames()
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	if r.polls.byProvider == nil {
		r.polls.byProvider = map[string]*polled{}
	}
	maps.DeleteFunc(r.polls.byProvider, func(name string, p *polled) bool { return p.running == 0 && !slices.Contains(names, name) })
	for _, name := range names {
		p := r.polls.byProvider[name]
		if p == nil {
			p = &polled{Polled: Polled{Provider: name, Answered: time.Now()}, limit: r.limits.Silent}
			r.polls.byProvider[name] = p
		}
		if p.running < maxPolls {
			p.running++
			due = append(due, name)
		}
	}
	return due
}

// pollOnce polls a provider and records whether it answers. It counts as answering unless the call as a whole fails.
func (r *Runner) pollOnce(ctx context.Context, name string) {
	p, err := r.cfg.Providers(name)
	if err == nil {
		limit := timeLimit(p, "get", r.limits.Get)
		if limit > r.limits.Get { // the provider's metadata say that it is slow
			r.polls.mu.Lock()
			r.polls.byProvider[name].limit = max(r.limits.Silent, limit)
			r.polls.mu.Unlock()
		}
		getting, cancel := context.WithTimeout(ctx, limit)
		_, err = p.Get(getting, []string{pollName})
		cancel()
	}
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	was := r.polls.byProvider[name]
	was.running--
	if ctx.Err() != nil {
		return
	}
	if was.Err = err; err != nil {
		return
	}
	if was.logged {
		r.cfg.Log.Info("a provider answers again", "provider", name, "silent_since", was.Answered)
	}
	was.Answered, was.logged = time.Now(), false
}

// OperatorText returns Detail for a provider's error, because the text of Error only refers to the
// log. For nil it returns a text which says that no call has ended yet.
func OperatorText(err error) string {
	if err == nil {
		return "none of its calls has ended yet"
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

// logSilence logs each provider that has become silent, once.
func (r *Runner) logSilence() {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	for name, p := range r.polls.byProvider {
		if p.isSilent() && !p.logged {
			p.logged = true
			r.cfg.Log.Error("a provider does not answer; its slivers are reported in the state that was last observed", "provider", name, "silent_since", p.Answered, "error", OperatorText(p.Err))
		}
	}
}
