package work

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

// double is a provider in memory that checks the rules for its calls: one set per resource at a
// time, one slice per batch, at most Parallel sets.
type double struct {
	places int
	slow   time.Duration // how long a change takes
	answer time.Duration // how long a call takes
	think  time.Duration // how much longer a get takes
	asking int           // gets that run
	most   int           // how many have run at once

	mu       sync.Mutex
	nodes    map[string]*node
	sliceOf  func(name string) string
	inSet    map[string]bool
	sets     int
	hangs    map[string]bool                   // a set with it never ends
	getHangs map[string]bool                   // a get with it never ends
	dies     map[string]bool                   // a set with it dies
	lies     map[string]bool                   // a set of it is accepted and does nothing
	refuses  map[string]func() *provider.Error // what a set of it says
	crowded  int                               // so many sets get no place
	breaks   error                             // every call fails
	gets     int
	setCalls [][]string
	noSetup  bool                // it knows no setup
	setups   map[string][]string // the setup of each node when it was created
	broken   []string            // rules for its calls that were violated
	watch    func(provider.Update)
	services func(name string) (items []string, changing bool) // of the attribute, and whether the node waits for them
	few      int                                               // a get of more names fails
	noList   error                                             // it cannot be asked for everything
	hidden   map[string]bool                                   // left out when it is asked for everything
}

type node struct {
	is    provider.Resource
	until time.Time // changing until then
	fails string    // then failed, with this message
}

func newDouble(places int) *double {
	return &double{
		places: places, nodes: map[string]*node{}, setups: map[string][]string{}, inSet: map[string]bool{}, hangs: map[string]bool{}, getHangs: map[string]bool{},
		dies: map[string]bool{}, lies: map[string]bool{}, refuses: map[string]func() *provider.Error{},
		sliceOf: func(name string) string { s, _, _ := strings.Cut(name, "-"); return s },
	}
}

func (d *double) Parallel() int { return d.places }

func (d *double) Reports(attribute string) bool {
	return attribute != provider.AttrSetup
}

func (d *double) Accepts(attribute string) bool {
	return attribute != provider.AttrSetup || !d.noSetup
}

func (d *double) wait(ctx context.Context, hang bool) error {
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	d.mu.Lock()
	answer := d.answer
	d.mu.Unlock()
	return sleep(ctx, answer)
}

func (d *double) with(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func any2(names []string, m map[string]bool) bool {
	return slices.ContainsFunc(names, func(n string) bool { return m[n] })
}

func (d *double) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	d.mu.Lock()
	d.gets++
	d.asking++
	d.most = max(d.most, d.asking)
	defer d.with(func() { d.asking-- })
	hang, broken, think := any2(names, d.getHangs), d.breaks, d.think
	if d.few > 0 && len(names) > d.few {
		broken = fmt.Errorf("wrote more than 16777216 bytes")
	}
	if len(names) > 1000 {
		d.broken = append(d.broken, "a get of more than 1000 names")
	}
	d.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	if err := sleep(ctx, think); err != nil {
		return nil, err
	}
	if err := d.wait(ctx, hang); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]provider.Result{}
	if names == nil {
		if d.noList != nil {
			return nil, d.noList
		}
		for name := range d.nodes {
			if !d.hidden[name] {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		out[name] = provider.Result{Resource: d.show(name)}
	}
	return out, nil
}

func (d *double) show(name string) provider.Resource {
	n := d.nodes[name]
	if n == nil {
		return provider.Resource{"name": name, "ensure": "absent"}
	}
	is := maps.Clone(n.is)
	changing := false
	if d.services != nil {
		var items []string
		if items, changing = d.services(name); items != nil {
			is[provider.AttrServices] = items
		}
	}
	switch {
	case time.Now().Before(n.until) || changing:
		is["state"] = "changing"
	case n.fails != "":
		is["state"], is["message"] = "failed", n.fails
	case is.Text("ensure") == "absent":
		delete(d.nodes, name)
	default:
		is["state"], is["login"] = "ready", []string{"192.0.2.1:22"}
	}
	return is
}

func (d *double) Set(ctx context.Context, us []provider.Update, noop bool) ([]provider.Change, error) {
	var names []string
	for _, u := range us {
		names = append(names, u.Name)
	}
	d.mu.Lock()
	d.setCalls = append(d.setCalls, names)
	if d.sets++; d.sets > d.places {
		d.broken = append(d.broken, fmt.Sprintf("%d sets at once", d.sets))
	}
	for _, u := range us {
		if d.inSet[u.Name] {
			d.broken = append(d.broken, "two sets of "+u.Name)
		}
		if d.sliceOf(u.Name) != d.sliceOf(names[0]) {
			d.broken = append(d.broken, "a set of two slices: "+u.Name+" and "+names[0])
		}
		if d.watch != nil {
			d.watch(u)
		}
		if len(u.Should) == 0 {
			d.broken = append(d.broken, "a set of nothing for "+u.Name)
		}
		d.inSet[u.Name] = true
	}
	hang, dies, broken := any2(names, d.hangs), any2(names, d.dies), d.breaks
	d.crowded--
	crowded := d.crowded >= 0
	d.mu.Unlock()
	defer d.with(func() {
		d.sets--
		for _, n := range names {
			delete(d.inSet, n)
		}
	})
	if broken != nil {
		return nil, broken
	}
	if crowded {
		<-ctx.Done()
		return nil, &provider.Error{Kind: provider.Failed, Temporary: true, Err: fmt.Errorf("set %w: %w", provider.ErrNoPlace, ctx.Err())}
	}
	if hang {
		d.with(func() { d.applyUntil(us, d.hangs) })
	}
	err := d.wait(ctx, hang)
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []provider.Change
	for _, u := range us {
		if hang || d.dies[u.Name] {
			break // those before it have been done
		}
		c := provider.Change{Name: u.Name, Is: u.Should}
		if f := d.refuses[u.Name]; f != nil {
			c.Err = f()
		}
		if c.Err == nil && !d.lies[u.Name] {
			d.apply(u)
		}
		changes = append(changes, c)
	}
	switch {
	case err != nil:
		return nil, err
	case dies:
		return nil, &provider.Error{Kind: provider.Failed, Msg: "provider double: set: exit status 1", Temporary: true}
	}
	return changes, nil
}

// applyUntil does the updates before the first of a name in ends.
func (d *double) applyUntil(us []provider.Update, ends map[string]bool) {
	for _, u := range us {
		if ends[u.Name] {
			return
		}
		if d.refuses[u.Name] == nil && !d.lies[u.Name] {
			d.apply(u)
		}
	}
}

func (d *double) apply(u provider.Update) {
	n := d.nodes[u.Name]
	if n == nil {
		if u.Should.Text("ensure") == "absent" {
			return
		}
		n = &node{is: provider.Resource{"name": u.Name}}
		d.nodes[u.Name] = n
		delete(d.setups, u.Name)
	}
	maps.Copy(n.is, u.Should)
	if steps, told := u.Should[provider.AttrSetup]; told {
		delete(n.is, provider.AttrSetup)
		if d.setups[u.Name] != nil {
			d.broken = append(d.broken, "setup told twice: "+u.Name)
		}
		d.setups[u.Name] = steps.([]string)
	}
	n.until = time.Now().Add(d.slow)
	if u.Should.Text("ensure") == "absent" {
		n.fails = ""
	}
}
