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
	// pollName is the name of a resource that no provider has. A provider is asked for it
	// to find out whether it answers.
	pollName = "00000000-0000-4000-8000-000000000000"
	// maxPolls is how many polls of one provider may run. A slow provider is polled again
	// before it has answered, so that its answers come as often as those of others.
	maxPolls = 4
)

// Polled is what polls of a provider have shown.
type Polled struct {
	Provider string
	// Answered is when it last answered, or when it was first polled.
	Answered time.Time
	// Silent says that it has not answered for too long; Err is then why, if a poll has
	// ended.
	Silent bool
	Err    error
}

// polls is what is known of whether providers answer.
type polls struct {
	mu sync.Mutex
	of map[string]*polled // by the provider's name
}

type polled struct {
	Polled
	running int
	limit   time.Duration // after which it is silent
	logged  bool          // that it is silent
}

// Polled lists the providers of the inventory and of slivers by name. It is empty until
// the runner calls providers.
func (r *Runner) Polled() []Polled {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	var all []Polled
	for _, p := range r.polls.of {
		p.Silent = time.Since(p.Answered) > p.limit
		all = append(all, p.Polled)
	}
	slices.SortFunc(all, func(a, b Polled) int { return cmp.Compare(a.Provider, b.Provider) })
	return all
}

// Silent tells whether a provider has not answered for too long, and when it last did.
func (r *Runner) Silent(name string) (since time.Time, silent bool) {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	p := r.polls.of[name]
	if p == nil {
		return time.Time{}, false
	}
	return p.Answered, time.Since(p.Answered) > p.limit
}

// poll asks each provider from time to time whether it answers, until ctx ends. A
// provider that hangs keeps no other waiting, and is asked again meanwhile.
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

// startPolls forgets providers that are no longer needed, and returns those to poll now.
func (r *Runner) startPolls() (due []string) {
	names := r.providerNames()
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	if r.polls.of == nil {
		r.polls.of = map[string]*polled{}
	}
	maps.DeleteFunc(r.polls.of, func(name string, p *polled) bool { return p.running == 0 && !slices.Contains(names, name) })
	for _, name := range names {
		p := r.polls.of[name]
		if p == nil {
			p = &polled{Polled: Polled{Provider: name, Answered: time.Now()}, limit: r.limits.Silent}
			r.polls.of[name] = p
		}
		if p.running < maxPolls {
			p.running++
			due = append(due, name)
		}
	}
	return due
}

// pollOnce asks a provider for a resource that it does not have. Any answer will do, but
// an error of the call as a whole is none.
func (r *Runner) pollOnce(ctx context.Context, name string) {
	p, err := r.cfg.Providers(name)
	if err == nil {
		limit := timeLimit(p, "get", r.limits.Get)
		if limit > r.limits.Get { // it says itself that it is slow
			r.polls.mu.Lock()
			r.polls.of[name].limit = max(r.limits.Silent, limit)
			r.polls.mu.Unlock()
		}
		getting, cancel := context.WithTimeout(ctx, limit)
		_, err = p.Get(getting, []string{pollName})
		cancel()
	}
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	was := r.polls.of[name]
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

// detail is an error as an operator needs it: for experimenters, a provider's says only
// to look into the log.
func detail(err error) string {
	if err == nil {
		return "it has not ended a call yet"
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

// logSilence logs each provider once that has fallen silent.
func (r *Runner) logSilence() {
	for _, p := range r.Polled() {
		if !p.Silent {
			continue
		}
		r.polls.mu.Lock()
		was := r.polls.of[p.Provider]
		fresh := was != nil && !was.logged
		if fresh {
			was.logged = true
		}
		r.polls.mu.Unlock()
		if fresh {
			r.cfg.Log.Error("a provider does not answer; its slivers are shown as they were last seen", "provider", p.Provider, "silent_since", p.Answered, "error", detail(p.Err))
		}
	}
}
