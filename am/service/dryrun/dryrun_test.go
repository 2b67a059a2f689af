package dryrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
	"patchbay/rspec/step"
)

// errHangs is the error of a dry run that times out.
var errHangs = errors.New("hangs")

// double is a provider in memory.
type double struct {
	mu         sync.Mutex
	refuses    map[string]*provider.Error // by component, in a set
	unfit      map[string]*provider.Error // by name, in a get
	whole      error                      // every dry run
	getFail    error
	hangs      bool             // in a set
	breaks     map[string]error // a dry run in which a component is; context.DeadlineExceeded after 5 s
	later      error            // a get after a set
	sees       func(provider.Update)
	deaf       bool // makes changes in a dry run
	stuck      bool // removes nothing
	nodes      map[string]provider.Resource
	calls      []string
	naps       time.Duration // duration of a call
	gets, sets gauge
}

// gauge counts concurrent calls.
type gauge struct{ now, most int }

// nap waits as long as a call takes; g counts it.
func (d *double) nap(g *gauge) {
	if d.naps > 0 {
		g.now++
		g.most = max(g.most, g.now)
		d.mu.Unlock()
		time.Sleep(d.naps)
		d.mu.Lock()
		g.now--
	}
}

func (d *double) note(format string, args ...any) {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
}

func (d *double) Get(_ context.Context, names []string) (map[string]provider.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nap(&d.gets)
	d.note("get %s", strings.Join(names, " "))
	if d.getFail != nil {
		return nil, d.getFail
	}
	if d.later != nil && len(d.calls) > 1 {
		return nil, d.later
	}
	out := map[string]provider.Result{"somebody-else": {Resource: provider.Resource{"name": "somebody-else", "ensure": "present"}}}
	for _, name := range names {
		out[name] = provider.Result{Resource: provider.Resource{"name": name, "ensure": "absent"}}
		if r, ok := d.nodes[name]; ok {
			out[name] = provider.Result{Resource: r}
		}
		if e := d.unfit[name]; e != nil {
			out[name] = provider.Result{Err: e}
		}
	}
	return out, nil
}

func (d *double) Set(ctx context.Context, us []provider.Update, noop bool) ([]provider.Change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nap(&d.sets)
	var names []string
	for _, u := range us {
		if d.sees != nil {
			d.sees(u)
		}
		names = append(names, u.Name+"="+u.Should.Text("ensure")+"@"+u.Should.Text("component"))
	}
	d.note("set noop=%v %s", noop, strings.Join(names, " "))
	if d.hangs {
		<-ctx.Done()
	}
	for _, u := range us {
		if err := d.breaks[u.Should.Text("component")]; noop && err != nil {
			if err == context.DeadlineExceeded {
				time.Sleep(5 * time.Second)
			}
			if err == errHangs {
				d.mu.Unlock()
				select {
				case <-time.After(provider.SetTimeout):
				case <-ctx.Done():
				}
				d.mu.Lock()
				return nil, &provider.Error{Kind: provider.Failed, Msg: "did not answer in time", Err: context.DeadlineExceeded}
			}
			return nil, err
		}
	}
	if d.deaf || !noop {
		for _, u := range us {
			if u.Should.Text("ensure") == "absent" {
				if d.stuck {
					return nil, &provider.Error{Kind: provider.Failed, Msg: "stuck"}
				}
				delete(d.nodes, u.Name)
				continue
			}
			r := maps.Clone(u.Should)
			r["name"] = u.Name
			d.nodes[u.Name] = r
		}
	}
	if d.hangs {
		return nil, &provider.Error{Kind: provider.Failed, Msg: "did not answer in time", Err: ctx.Err()}
	}
	changes := make([]provider.Change, len(us))
	for i, u := range us {
		changes[i] = provider.Change{Name: u.Name, Is: u.Should, Err: d.refuses[u.Should.Text("component")]}
	}
	if noop {
		return changes, d.whole
	}
	return changes, nil
}

// bench is a Prober over doubles; a component is called PROVIDER.NAME.
type bench struct {
	*Prober
	log     bytes.Buffer
	doubles map[string]*double
}

func newBench(names ...string) *bench {
	b := &bench{doubles: map[string]*double{}}
	for _, name := range names {
		b.doubles[name] = &double{nodes: map[string]provider.Resource{}}
	}
	b.Prober = New(Config{
		Components: func(u urn.URN) (string, string, bool) {
			name, _, ok := strings.Cut(u.Name, ".")
			return u.Name, name, ok
		},
		Providers: func(name string) (Provider, bool) {
			d, ok := b.doubles[name]
			return d, ok
		},
		Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	return b
}

func (b *bench) probe(t *testing.T, slivers []am.Sliver) []*am.Error {
	return b.Probe(t.Context(), slivers, nil, func(am.Sliver) bool { return false })
}

// on are slivers n0, n1, … on components.
func on(components ...string) []am.Sliver {
	var all []am.Sliver
	for i, c := range components {
		all = append(all, am.Sliver{
			URN:       urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint("n", i)},
			Component: urn.URN{Authority: "example.org", Type: urn.Node, Name: c},
			Hostname:  "h",
		})
	}
	return all
}

// says returns the code and message for each sliver.
func says(errs []*am.Error) (all []string) {
	for _, e := range errs {
		if e == nil {
			all = append(all, "yes")
		} else {
			all = append(all, fmt.Sprintf("%d %s", e.Code, e.Msg))
		}
	}
	return all
}

func TestEachKindHasItsCode(t *testing.T) {
	b := newBench("rack")
	d := b.doubles["rack"]
	d.refuses = map[string]*provider.Error{
		"rack.u": {Kind: provider.Unknown, Msg: "no such machine"}, "rack.f": {Kind: provider.Forbidden, Msg: "not yours"},
		"rack.l": {Kind: provider.Unsupported, Msg: "no latency"},
		"rack.x": {Kind: provider.Failed, Msg: "no power"}, "rack.s": {Kind: provider.Failed},
	}
	d.unfit = map[string]*provider.Error{"n5": {Kind: provider.Unknown, Msg: "what is n5?"}}
	got := says(b.probe(t, on("rack.u", "rack.f", "rack.x", "rack.s", "rack.ok", "rack.g", "other.a", "nowhere", "rack.l")))
	want := []string{"12 no such machine", "7 not yours", "2 no power", "2 its provider gives no reason", "yes", "12 what is n5?", "yes", "yes", "13 no latency"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDryRunHasAllAttributesOfASet checks that a dry run has the steps and links of a node, like a
// set.
func TestDryRunHasAllAttributesOfASet(t *testing.T) {
	b := newBench("rack")
	s := on("rack.a")
	s[0].Setup = []step.Step{{Kind: step.Execute, Shell: "sh", Command: "true"}}
	s[0].Interfaces = []am.Interface{{ClientID: "i", Link: "l", Properties: []am.Property{{Capacity: 5}}}}
	var should provider.Resource
	b.doubles["rack"].sees = func(u provider.Update) { should = u.Should }
	b.probe(t, s)
	if got := should.List(provider.AttrSetup); len(got) != 1 || got[0] != `{"kind":"execute","shell":"sh","command":"true"}` {
		t.Errorf("setup %q", got)
	}
	if got := should.List(provider.AttrInterfaces); len(got) != 1 || !strings.Contains(got[0], `"properties":[{"capacity":5}]`) {
		t.Errorf("interfaces %q", got)
	}
}

// TestDryRunOfAChange makes a dry run for an existing node. The provider gets only the changed
// attributes, and the node is not removed afterwards as if the dry run had created it.
func TestDryRunOfAChange(t *testing.T) {
	b := newBench("rack")
	s := on("rack.a", "rack.b")
	s[0].Desired.ChangeSerial, s[0].SliverType = 2, "vm"
	s[0].Setup = []step.Step{{Kind: step.Execute, Shell: "sh", Command: "true"}}
	d := b.doubles["rack"]
	d.nodes["n0"] = provider.Resource{"name": "n0", "ensure": "present", "component": "rack.a", "sliver_type": "vm", "change_serial": "1"}
	d.sees = func(u provider.Update) {
		_, again := u.Should["sliver_type"]
		if u.Name == "n0" && (again || u.Should.Text("change_serial") != "2" || len(u.Should.List("setup")) != 1) {
			t.Errorf("the change is %v", u.Should)
		}
	}
	d.refuses = map[string]*provider.Error{"": {Kind: provider.Unsupported, Msg: "not so"}}
	if diff := cmp.Diff([]string{fmt.Sprintf("%d not so", am.Unsupported), "yes"}, says(b.probe(t, s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get n0 n1", "set noop=true n0=@ n1=present@rack.b", "get n0 n1"}, d.calls); diff != "" {
		t.Errorf("rack was asked (-want +got):\n%s", diff)
	}
}

// TestDryRunIncludesPendingRemovals checks that a dry run includes the removal of nodes whose
// deletion has not reached the provider yet, so that they do not conflict with new nodes. Errors of
// the removals are ignored.
func TestDryRunIncludesPendingRemovals(t *testing.T) {
	b := newBench("rack", "other")
	b.doubles["rack"].refuses = map[string]*provider.Error{"": {Kind: provider.Failed, Msg: "it cannot be removed"}}
	leaving := on("rack.a", "other.a", "rack.c")
	leaving[0].URN.Name, leaving[1].URN.Name, leaving[2].URN.Name = "old1", "old2", "gone"
	b.doubles["rack"].nodes = map[string]provider.Resource{"old1": {"name": "old1", "ensure": "present", "component": "a"}}
	b.doubles["rack"].sees = func(u provider.Update) {
		if u.Name == "old1" && u.Is.Text("component") != "a" {
			t.Errorf("the node being removed is %v, not as the provider listed it", u.Is)
		}
	}
	if diff := cmp.Diff([]string{"yes"}, says(b.Probe(t.Context(), on("rack.b"), leaving, func(am.Sliver) bool { return false }))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get n0 old1 gone", "set noop=true n0=present@rack.b old1=absent@", "get n0"}, b.doubles["rack"].calls); diff != "" {
		t.Errorf("rack was asked (-want +got):\n%s", diff)
	}
	if len(b.doubles["other"].calls) > 0 {
		t.Errorf("other was asked: %q", b.doubles["other"].calls)
	}
}

func TestOneBatchForEachProvider(t *testing.T) {
	b := newBench("rack", "cloud")
	b.probe(t, on("rack.a", "cloud.a", "rack.b"))
	for name, want := range map[string][]string{
		"rack":  {"get n0 n2", "set noop=true n0=present@rack.a n2=present@rack.b", "get n0 n2"},
		"cloud": {"get n1", "set noop=true n1=present@cloud.a", "get n1"},
	} {
		if diff := cmp.Diff(want, b.doubles[name].calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnansweredDryRunIsAProviderError(t *testing.T) {
	broken := &provider.Error{Kind: provider.Failed, Msg: "the provider rack is not working properly", Err: fmt.Errorf("exit status 3 of /secret/path")}
	for _, tt := range []struct {
		rule   string
		breaks func(*double)
		want   string
	}{
		{"top-level error, forbidden or not", func(d *double) { d.whole = &provider.Error{Kind: provider.Forbidden, Msg: "not today"} }, "7 not today"},
		{"no usable answer to set", func(d *double) { d.whole = broken }, "5 the provider rack is not working properly; try again later"},
		{"no usable answer to get", func(d *double) { d.getFail = broken }, "5 the provider rack is not working properly; try again later"},
		{"an error of no provider's making", func(d *double) { d.getFail = fmt.Errorf("/secret/path") }, "5 its provider rack did not answer; try again later"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b := newBench("rack", "cloud")
			tt.breaks(b.doubles["rack"])
			got := says(b.probe(t, on("rack.a", "cloud.a", "rack.b")))
			if diff := cmp.Diff([]string{tt.want, "yes", tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDryRunsOfAProviderAreQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench("rack")
		b.doubles["rack"].naps = 100 * time.Millisecond
		var calls sync.WaitGroup
		late := make([]string, 10*atOnce)
		for i := range late {
			calls.Go(func() { late[i] = says(b.probe(t, on("rack.a")))[0] })
		}
		calls.Wait()
		if d := b.doubles["rack"]; d.gets.most != atOnce || d.sets.most != 1 {
			t.Errorf("%d gets and %d dry runs at once, want %d and 1", d.gets.most, d.sets.most, atOnce)
		}
		if slices.ContainsFunc(late, func(s string) bool { return s != "yes" }) {
			t.Errorf("answers %q", late)
		}
	})
}

// TestL10ADryRunThatChangesSomething has a provider create a node in a dry run. The node is
// removed, the provider gets no more dry runs, and the probe continues.
func TestL10ADryRunThatChangesSomething(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		breaks func(*double)
		want   []string
		left   int
		log    string
	}{
		{"and answers", func(*double) {}, []string{"yes", "yes", "yes"}, 0, "which are being removed"},
		{"and reports an error", func(d *double) { d.whole = &provider.Error{Msg: "no"} }, []string{"5 no; try again later", "yes", "5 no; try again later"}, 0, "which are being removed"},
		{"and does not answer", func(d *double) { d.hangs = true }, []string{"8 did not answer in time; try again later", "yes", "8 did not answer in time; try again later"}, 0, ""},
		{"and cannot remove it", func(d *double) { d.stuck = true }, []string{"yes", "yes", "yes"}, 2, "remove them by hand"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench("rack", "cloud")
				d := b.doubles["rack"]
				d.deaf = true
				tt.breaks(d)
				slivers := on("rack.a", "cloud.a", "rack.b")
				if !b.WantsProbe(slivers[0].Component) {
					t.Fatal("it is not asked at all")
				}
				if diff := cmp.Diff(tt.want, says(b.probe(t, slivers))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if i := len(d.calls) - 1; d.calls[i] != "set noop=false n0=absent@ n2=absent@" {
					t.Errorf("last call %s, want the removal", d.calls[i])
				}
				if len(d.nodes) != tt.left {
					t.Errorf("left: %v", d.nodes)
				}
				if !strings.Contains(b.log.String(), "level=ERROR") || !strings.Contains(b.log.String(), tt.log) || !strings.Contains(b.log.String(), `nodes="[n0 n2]"`) {
					t.Errorf("log: %s", b.log.String())
				}
				if b.WantsProbe(slivers[0].Component) || !b.WantsProbe(slivers[1].Component) {
					t.Error("it is asked again, or the other is not")
				}
				n := len(d.calls)
				if b.probe(t, slivers); len(d.calls) != n {
					t.Errorf("asked again: %q", d.calls[n:])
				}
			})
		})
	}
}

func TestFailedGetAfterADryRunIsLogged(t *testing.T) {
	b := newBench("rack")
	b.doubles["rack"].later = fmt.Errorf("the disk is full")
	got := says(b.probe(t, on("rack.a", "rack.b")))
	if want := "5 its provider rack did not answer; try again later"; got[0] != want || got[1] != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"level=ERROR", "remove them by hand", "provider=rack", `nodes="[n0 n1]"`, "the disk is full"} {
		if !strings.Contains(b.log.String(), text) {
			t.Errorf("the log does not say %q: %s", text, b.log.String())
		}
	}
}

// TestNodesProvisionedMeanwhileAreNotRemoved checks that a node which exists after a dry run because its sliver
// was provisioned meanwhile is not removed, and that its provider still gets dry runs.
func TestNodesProvisionedMeanwhileAreNotRemoved(t *testing.T) {
	b := newBench("rack")
	d := b.doubles["rack"]
	d.deaf = true // so that the nodes are there afterwards
	slivers := on("rack.a", "rack.b")
	moved := func(s am.Sliver) bool { return s.URN == slivers[0].URN }
	b.Probe(t.Context(), slivers, nil, moved)
	if d.nodes["n0"] == nil || d.nodes["n1"] != nil {
		t.Errorf("left: %v, want n0 alone", d.nodes)
	}
	b = newBench("rack")
	d = b.doubles["rack"]
	d.deaf = true
	b.Probe(t.Context(), slivers[:1], nil, moved)
	if d.nodes["n0"] == nil || !b.WantsProbe(slivers[0].Component) || b.log.Len() > 0 {
		t.Errorf("left: %v; asked again: %v; log %s", d.nodes, b.WantsProbe(slivers[0].Component), b.log.String())
	}
}
