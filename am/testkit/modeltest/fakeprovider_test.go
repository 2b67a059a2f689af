package modeltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

// behaviour is how a provider answers one call.
type behaviour int

const (
	succeeds   behaviour = iota // changes all resources at once
	slow                        // accepts the change, which then takes some time
	fails                       // changes nothing, and the call fails
	busy                        // refuses each resource temporarily
	refuses                     // refuses each resource permanently
	dies                        // changes all resources, but the call fails
	halfway                     // changes the first half of the resources, but the call fails
	lies                        // changes nothing, but reports success
	hangs                       // does nothing until the time limit of the call
	late                        // changes all resources, but answers only after the time limit
	crowded                     // cannot start the call before the time limit (ErrNoPlace)
	forgets                     // changes all resources, but the answer lacks half of them
	breaks                      // creates resources that have failed
	slowly                      // changes all resources at once, but answers late
	disowns                     // reports resources that it must remove as unknown
	behaviours                  // the number of behaviours
)

// behaviourNames are the names of the behaviours, for messages.
var behaviourNames = [...]string{"succeeds", "slow", "fails", "busy", "refuses", "dies", "halfway", "lies", "hangs", "late", "crowded", "forgets", "breaks", "slowly", "disowns"}

func (c behaviour) String() string { return behaviourNames[c] }

// fakeProvider is a provider and its machines, which outlive the process of the
// aggregate.
type fakeProvider struct {
	// places is how many sets may run at once.
	places int
	// pace is the duration of a slow change.
	pace time.Duration

	mu sync.Mutex // guards the fields below
	// single are the components that can have only one machine.
	single   map[string]bool
	machines map[string]*machine
	gone     map[string]provider.Resource // the last state of removed resources
	setting  map[string]bool              // the resources in running sets
	calls    int
	// behaviour returns how to answer call number n; nil means that all calls succeed.
	behaviour func(n int, action string, names []string) behaviour
	// broken describes violations of the provider protocol by the runner.
	broken []string
}

// machine is one resource.
type machine struct {
	is         provider.Resource
	until      time.Time // it is changing until this time
	failed     string    // why it has failed; "" if it has not
	reappeared bool      // it was removed and exists again
}

func newFakeProvider() *fakeProvider {
	return &fakeProvider{single: map[string]bool{}, places: 2, pace: 3 * time.Second, machines: map[string]*machine{}, gone: map[string]provider.Resource{}, setting: map[string]bool{}}
}

func (r *fakeProvider) Parallel() int { return r.places }

func (r *fakeProvider) Reports(attribute string) bool { return attribute != provider.AttrSetup }

func (r *fakeProvider) Accepts(string) bool { return true }

func (r *fakeProvider) with(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// present returns the names of existing machines, without those that reappeared.
func (r *fakeProvider) present() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, m := range r.machines {
		if !m.reappeared && (m.is.Text(provider.AttrEnsure) == provider.Present || time.Now().Before(m.until)) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// begin counts a call and returns how to answer it.
func (r *fakeProvider) begin(action string, names []string) behaviour {
	r.calls++
	if r.behaviour == nil {
		return succeeds
	}
	return r.behaviour(r.calls, action, names)
}

func failure(format string, args ...any) *provider.Error {
	return &provider.Error{Kind: provider.Failed, Msg: fmt.Sprintf(format, args...), Temporary: true}
}

func (r *fakeProvider) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	r.mu.Lock()
	c := r.begin("get", names)
	r.mu.Unlock()
	switch c {
	case fails, dies, halfway:
		return nil, failure("the provider is broken")
	case hangs, late, crowded:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	out := map[string]provider.Result{}
	r.with(func() {
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(r.machines))
		}
		for i, name := range names {
			switch {
			case c == busy || c == forgets && i >= len(names)/2:
				out[name] = provider.Result{Err: failure("not to be seen now")}
			default:
				out[name] = provider.Result{Resource: r.show(name)}
			}
		}
	})
	return out, r.delay(ctx, c)
}

// delay waits if the behaviour is slow.
func (r *fakeProvider) delay(ctx context.Context, c behaviour) error {
	if c != slowly {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5*time.Second + r.pace/2): // in time for a set, just
		return nil
	}
}

func (r *fakeProvider) show(name string) provider.Resource {
	m := r.machines[name]
	if m == nil {
		return provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}
	}
	is := maps.Clone(m.is)
	switch {
	case time.Now().Before(m.until):
		is[provider.AttrState] = provider.StateChanging
	case is.Text(provider.AttrEnsure) == provider.Absent:
		delete(r.machines, name)
		delete(is, provider.AttrState)
		r.gone[name] = maps.Clone(is)
		r.gone[name][provider.AttrEnsure] = provider.Present
	case m.failed != "":
		is[provider.AttrState], is[provider.AttrMessage] = provider.StateFailed, m.failed
	default:
		is[provider.AttrState], is[provider.AttrLogin] = provider.StateReady, []string{"192.0.2.1:22"}
	}
	return is
}

func (r *fakeProvider) Set(ctx context.Context, us []provider.Update, noop bool) ([]provider.Change, error) {
	var names []string
	for _, u := range us {
		names = append(names, u.Name)
	}
	r.mu.Lock()
	for _, n := range names {
		if r.setting[n] {
			r.broken = append(r.broken, "two sets of "+n+" at once")
		}
		r.setting[n] = true
	}
	action := "set"
	if noop {
		action = "ask"
	}
	c := r.begin(action, names)
	r.mu.Unlock()
	defer r.with(func() {
		for _, n := range names {
			delete(r.setting, n)
		}
	})
	switch c {
	case fails:
		return nil, failure("the provider is broken")
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case crowded:
		<-ctx.Done()
		return nil, &provider.Error{Kind: provider.Failed, Temporary: true, Err: fmt.Errorf("set %w: %w", provider.ErrNoPlace, ctx.Err())}
	}
	changes := r.apply(us, c, noop)
	if err := r.delay(ctx, c); err != nil {
		return nil, err
	}
	switch c {
	case dies, halfway:
		return nil, failure("the provider died")
	case late:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return changes, nil
}

func (r *fakeProvider) apply(us []provider.Update, c behaviour, noop bool) (changes []provider.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, u := range us {
		ch := provider.Change{Name: u.Name, Is: u.Should}
		switch {
		case c == halfway && i >= (len(us)+1)/2:
			return changes
		case c == refuses:
			ch.Err = &provider.Error{Kind: provider.Forbidden, Msg: "this is not permitted"}
		case c == disowns && u.Should.Text(provider.AttrEnsure) == provider.Absent:
			ch.Err = &provider.Error{Kind: provider.Unknown, Msg: "there is no such thing"}
		case c == busy:
			ch.Err = failure("no time now")
		case c != lies && !noop:
			r.change(u, c)
		}
		if c == forgets && i >= len(us)/2 {
			ch = provider.Change{Name: u.Name} // which is all that package provider tells then
		}
		changes = append(changes, ch)
	}
	return changes
}

func (r *fakeProvider) change(u provider.Update, c behaviour) {
	m := r.machines[u.Name]
	absent := u.Should.Text(provider.AttrEnsure) == provider.Absent
	if m == nil {
		if absent {
			return
		}
		m = &machine{is: provider.Resource{provider.AttrName: u.Name}}
		r.machines[u.Name] = m
		r.concurrentHistory(u)
	}
	maps.Copy(m.is, u.Should)
	delete(m.is, provider.AttrSetup)
	m.failed, m.until = "", time.Time{}
	if c == slow {
		m.until = time.Now().Add(r.pace)
	}
	if c == breaks && !absent {
		m.failed = "it does not come up"
	}
}

// concurrentHistory records a machine that is made where another one exists.
func (r *fakeProvider) concurrentHistory(u provider.Update) {
	where := u.Should.Text(provider.AttrComponent)
	if !r.single[where] {
		return
	}
	for n, other := range r.machines {
		if n != u.Name && !other.reappeared && other.is.Text(provider.AttrComponent) == where {
			r.broken = append(r.broken, fmt.Sprintf("%s is made on %s, where %s still is", u.Name, where, n))
		}
	}
}
