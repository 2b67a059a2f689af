package operate_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

var update = flag.Bool("update", false, "rewrite the goldens")

const testbed = `
provider: rack
images: [{name: debian}]
sliver_types:
  - {name: raw-pc, images: [debian]}
  - {name: vm, needs: {cores: 1, memory: 1G}, images: [debian]}
components:
  - {names: pc1..pc4, exclusive: true, sliver_types: [raw-pc]}
  - {name: pc5, exclusive: true, sliver_types: [raw-pc], drained: true}
  - {names: h1..h2, exclusive: false, sliver_types: [vm], capacity: {slots: 4, cores: 2, memory: 8G}}
`

const outages = `
planned:
  - {components: [pc3], from: 2030-01-02T00:00:00Z, until: 2030-01-03T00:00:00Z, text: new disks}
  - {components: [h1], from: 2030-01-04T00:00:00Z, until: 2030-01-05T00:00:00Z, text: move}
drained:
  - {components: [pc4], text: fan broken, since: 2030-01-01T00:00:00Z, by: dora}
`

// now is the time of all tests.
var now = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func name(kind, n string) urn.URN {
	return urn.URN{Authority: "example.org", Type: kind, Name: n}
}

var (
	alice, bob = name(urn.User, "alice"), name(urn.User, "bob")
	sliceA     = name(urn.Slice, "exp-a")
	sliceB     = name(urn.Slice, "exp-b")
	down       = name(urn.Slice, "frozen")
	twice      = urn.URN{Authority: "other.example.org", Type: urn.Slice, Name: "exp-b"}
)

// hostile is a text that a client may use as the name of a node and a provider as a message.
const hostile = "x\x1b[31m\u202e\u009b2J\n"

var (
	allocated = am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}
	making    = am.Status{Allocation: am.Provisioned, Operational: am.PendingAllocation}
	ready     = am.Status{Allocation: am.Provisioned, Operational: am.Ready}
	notReady  = am.Status{Allocation: am.Provisioned, Operational: am.NotReady}
	failed    = am.Status{Allocation: am.Provisioned, Operational: am.Failed}
	released  = am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}
)

// held returns the slivers of the store.
func held() []am.Sliver {
	n := 0
	sliver := func(slice urn.URN, id, on string, status am.Status, user urn.URN, ends time.Duration) am.Sliver {
		n++
		x := am.Sliver{
			URN: name(urn.Sliver, fmt.Sprintf("s%d", n)), Slice: slice, ClientID: id, Ordinal: n, Document: "d" + slice.Name,
			Component: name(urn.Node, on), ComponentName: on, Provider: "rack", SliverType: "raw-pc", Image: "debian", Exclusive: strings.HasPrefix(on, "pc"),
			Amount: am.Amount{Slots: 1}, Status: status, Created: now.Add(-time.Hour), Creator: user, Expires: now.Add(ends), Generation: 1,
			Desired: am.Desired{Present: true},
		}
		if !x.Exclusive {
			x.SliverType, x.Amount = "vm", am.Amount{Slots: 1, Cores: 1, Memory: 1024}
		}
		return x
	}
	all := []am.Sliver{
		sliver(sliceA, "web", "pc1", ready, alice, 3*time.Hour),
		sliver(sliceA, "db", "h1", failed, bob, 2*time.Hour),
		sliver(sliceA, "old", "pc2", released, alice, time.Hour),
		sliver(sliceB, "n", "h1", allocated, bob, 5*time.Minute),
		sliver(sliceB, "m", "h2", making, bob, time.Hour),
		sliver(down, "n", "pc3", notReady, alice, -time.Hour),
		sliver(twice, "n", "gone", ready, alice, time.Hour),
	}
	all[0].Observed.Logins, all[0].Speaker = []string{"pc1.example.org:22"}, name(urn.User, "portal")
	all[1].Error = "no power: " + hostile
	all[4].ClientID = hostile
	all[5].Frozen = true
	return all
}

// site is Operations over a store, with the number of wake-ups of the runner.
type site struct {
	*operate.Operations
	t     testing.TB
	store *store.Store
	inv   *inventory.Inventory
	woken atomic.Int64
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := emptySite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		for _, u := range []urn.URN{sliceA, sliceB, down, twice} {
			x := am.Slice{URN: u, Created: now.Add(-2 * time.Hour), Serial: 7}
			if u == down {
				x.Shutdown, x.ShutdownBy = now.Add(-30*time.Minute), bob
			}
			cs.PutSlice(x)
			cs.PutDocument(am.Document{ID: "d" + u.Name, Slice: u, Text: []byte("<rspec/>")})
		}
		for _, x := range held() {
			cs.PutSliver(x)
			switch x.Status {
			case making:
				cs.PutTask(am.Task{Sliver: x.URN, Generation: 1, Goal: am.GoalMake, Attempt: 2, NotBefore: now.Add(time.Minute), Since: now.Add(-time.Minute), Request: "r1"})
			case released:
				cs.PutTask(am.Task{Sliver: x.URN, Generation: 1, Goal: am.GoalRemove, Since: now.Add(-2 * time.Minute)})
			}
		}
		cs.Log(am.JournalEntry{At: now.Add(-time.Hour), Event: "Allocate", Request: "r1", Method: "Allocate", API: 3, Remote: "192.0.2.1:1", Caller: alice, Slice: sliceA, Slivers: []urn.URN{name(urn.Sliver, "s1")}})
		cs.Log(am.JournalEntry{At: now.Add(-30 * time.Minute), Event: "Shutdown", Caller: bob, Slice: down, Slivers: []urn.URN{name(urn.Sliver, "s6")}})
		cs.Log(am.JournalEntry{At: now.Add(-20 * time.Minute), Event: "gave up", Slice: sliceA, Slivers: []urn.URN{name(urn.Sliver, "s2")}, Text: "no power: " + hostile})
		cs.Log(am.JournalEntry{At: now.Add(-10 * time.Minute), Event: "thaw", Operator: "dora", Slice: twice})
		return cs, nil
	})
	return s
}

func emptySite(t testing.TB) *site {
	t.Helper()
	inv, err := inventory.Parse([]byte(testbed), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := maintenance.Parse([]byte(outages), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, inv: inv}
	s.store, err = store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	s.Operations = operate.New(operate.Config{
		Store: s.store, Inventory: func() *inventory.Inventory { return inv }, Plan: func() *maintenance.Plan { return plan },
		AllocatedMax: 2 * time.Hour, ProvisionedMax: 24 * time.Hour, Wake: func() { s.woken.Add(1) },
		Reading: func(v *inventory.Inventory) rspec.ReadOptions {
			return rspec.ReadOptions{Managers: []urn.URN{v.Manager}}
		},
		Orphans: func() map[[2]string]int { return map[[2]string]int{{"rack", "pc2"}: 2, {"other", "pc1"}: 1} },
		Manifest: func(u urn.URN) ([]byte, error) {
			if u.Equal(sliceB) {
				return nil, am.Errorf(am.SearchFailed, "it has none")
			}
			return []byte("<rspec slice=\"" + u.Name + "\"/>"), nil
		},
	})
	return s
}

func (s *site) commit(d store.Decision) {
	s.t.Helper()
	if err := s.store.Commit(context.Background(), d); err != nil {
		s.t.Fatal(err)
	}
}

// lines is a list as it is sent.
func (s *site) lines(what string, f operate.Filter) string {
	s.t.Helper()
	text, err := operate.ListLines(s.Operations, what, f)
	if err != nil {
		s.t.Fatalf("%s %+v: %v", what, f, err)
	}
	return string(text)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%swant\n%s", file, got, want)
	}
}
