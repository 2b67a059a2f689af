package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/rspec/step"
)

// sampleSite is the site of the stores in testdata.
const sampleSite = "example.org"

// sample has the records of the stores in testdata/schemaN.db.gz. Never change it: files
// of earlier versions are compared with it, see sampleOf.
type sample struct {
	slices    []am.Slice
	slivers   []am.Sliver
	documents []am.Document
	tasks     []am.Task
	journal   []am.JournalEntry
}

func sampleRecords() sample {
	user := urn.URN{Authority: "example.org", Type: urn.User, Name: "user"}
	tool := urn.URN{Authority: "example.org", Type: urn.User, Name: "tool"}
	var x sample
	for i, name := range []string{"alpha", "beta", "gamma"} {
		s := am.Slice{URN: sliceURN(name), Created: noon.Add(time.Duration(i) * time.Hour), Serial: int64(i + 1)}
		if name == "gamma" {
			s.Shutdown, s.ShutdownBy = noon.Add(5*time.Hour), user
		}
		x.slices = append(x.slices, s)
		x.documents = append(x.documents, am.Document{
			ID: "request-" + name, Slice: s.URN, Received: s.Created,
			Text: []byte("<rspec type=\"request\"><!-- \u00e9\x01 " + name + " --></rspec>\r\n"),
		})
		x.journal = append(x.journal, am.JournalEntry{
			At: s.Created, Event: "Allocate", Request: fmt.Sprint("r", i), Method: "Allocate", API: 3, Remote: "192.0.2.7",
			Caller: user, Speaker: tool, Credentials: []string{fmt.Sprintf("%064d", i)}, Slice: s.URN, Slivers: []urn.URN{sliverURN(name + "-0")},
		})
	}
	x.journal = append(x.journal, am.JournalEntry{At: noon.Add(6 * time.Hour), Event: "lockdown", Operator: "root", Text: "moving house"})
	for i, status := range []am.Status{
		{Allocation: am.Allocated, Operational: am.PendingAllocation},
		{Allocation: am.Provisioned, Operational: am.PendingAllocation},
		{Allocation: am.Provisioned, Operational: am.NotReady},
		{Allocation: am.Provisioned, Operational: am.Configuring},
		{Allocation: am.Provisioned, Operational: am.Ready},
		{Allocation: am.Provisioned, Operational: am.Failed},
		{Allocation: am.Unallocated, Operational: am.Ready},
		{Allocation: am.Provisioned, Operational: am.Ready}, // frozen
		// Since startSchema:
		{Allocation: am.Allocated, Operational: am.PendingAllocation}, // begins later
		{Allocation: am.Allocated, Operational: am.PendingAllocation}, // begins when the one before ends, by itself
		{Allocation: am.Provisioned, Operational: am.Ready},           // has begun
	} {
		slice := x.slices[i%2]
		if i == 7 {
			slice = x.slices[2]
		}
		name := slice.URN.Name
		s := am.Sliver{
			URN: sliverURN(fmt.Sprint(name, "-", i)), Slice: slice.URN, ClientID: fmt.Sprint("node", i), Ordinal: i, Hostname: fmt.Sprint("node", i),
			Document: "request-" + name, Component: componentURN(fmt.Sprint("pc", i)), SliverType: "raw-pc", Image: "debian-12", Exclusive: true,
			Status: status, Created: slice.Created, Creator: user, Speaker: tool, Request: fmt.Sprint("r", i), Frozen: i == 7,
			Expires: noon.Add(time.Duration(24-i) * time.Hour), Ends: noon.Add(time.Duration(24-i) * time.Hour), Generation: int64(i),
			Desired: am.Desired{Present: status.Allocation == am.Provisioned, On: i > 2},
		}
		switch i {
		case 0: // of a shared host
			s.Component, s.SliverType, s.Exclusive, s.Amount = componentURN("vm1"), "vm", false, am.Amount{Slots: 1, Memory: 512}
			s.RequestedEnd = noon.Add(48 * time.Hour)
		case 4:
			s.Desired.Accounts = []am.Account{{Login: "user", User: user, Keys: []string{"ssh-ed25519 AAAA user"}}}
			s.Interfaces = []am.Interface{{ClientID: "node4:if0"}}
			s.Setup = []step.Step{{Kind: step.Install, URL: "http://example.org/a.tgz", InstallPath: "/local", FileType: "tar.gz"}}
			s.PublicAddress = netip.MustParseAddr("192.0.2.44")
			s.Observed = am.Observed{
				State: "ready", Addresses: []string{"10.0.0.4"}, Logins: []string{"pc4.example.org:22"}, HostKeys: []string{"ssh-ed25519 BBBB"},
				Accounts: s.Desired.Accounts, MACs: map[string]string{"node4:if0": "02:00:00:00:00:04"},
			}
		case 5:
			s.Error = "the machine does not answer"
		case 8, 9:
			s.Component, s.Asked = componentURN("pc1"), true // which is held until then
			s.Begins, s.Ends = noon.Add(time.Duration(24+6*(i-8))*time.Hour), noon.Add(time.Duration(30+6*(i-8))*time.Hour)
			if s.Expires = s.Begins.Add(30 * time.Minute); i == 9 {
				s.Expires, s.AutoProvision, s.Desired.Accounts = s.Ends, true, x.slivers[4].Desired.Accounts
			}
		case 10:
			s.Begins, s.Ends, s.Expires, s.Begun = noon.Add(-time.Hour), noon.Add(20*time.Hour), noon.Add(20*time.Hour), true
		}
		x.slivers = append(x.slivers, s)
		switch i {
		case 1, 3:
			x.tasks = append(x.tasks, am.Task{Sliver: s.URN, Generation: s.Generation, Goal: am.GoalMake, Attempt: i, NotBefore: noon.Add(time.Minute), Since: noon, Request: s.Request})
		case 6:
			x.tasks = append(x.tasks, am.Task{Sliver: s.URN, Generation: s.Generation, Goal: am.GoalRemove, Since: noon})
		}
	}
	return x
}

// fill commits the sample, and also records that it replaces or deletes again.
func (x sample) fill(t testing.TB, s *Store) {
	t.Helper()
	put := func(cs ChangeSet) {
		if err := s.Commit(context.Background(), func(*View) (ChangeSet, error) { return cs, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		var cs ChangeSet
		cs.PutSliver(sliver(fmt.Sprint("passing-", i), "passing", i))
		put(cs)
	}
	for i := range 100 {
		var cs ChangeSet
		cs.Remove(SliverKey(sliverURN(fmt.Sprint("passing-", i))))
		put(cs)
	}
	for _, r := range x.slices {
		var cs ChangeSet
		cs.PutSlice(r)
		put(cs)
	}
	for _, r := range x.documents {
		var cs ChangeSet
		cs.PutDocument(r)
		put(cs)
	}
	for _, r := range x.slivers {
		var cs ChangeSet
		was := r
		was.Expires = noon
		was.Frozen = false
		was.Status.Allocation = am.Allocated
		cs.PutSliver(was)
		put(cs)
		cs = ChangeSet{}
		cs.PutSliver(r)
		put(cs)
	}
	for _, r := range x.tasks {
		var cs ChangeSet
		cs.PutTask(r)
		put(cs)
	}
	for _, r := range x.journal {
		var cs ChangeSet
		cs.Log(r)
		put(cs)
	}
}

// compare checks that a store has exactly the records of the sample.
func (x sample) compare(t testing.TB, s *Store) {
	t.Helper()
	var is sample
	err := s.Read(func(v *View) error {
		for _, d := range x.documents {
			got, _, err := v.Document(d.ID)
			if err != nil {
				return err
			}
			is.documents = append(is.documents, got)
		}
		return errors.Join(
			v.Slices(func(r am.Slice) bool { is.slices = append(is.slices, r); return true }),
			v.Slivers(func(r am.Sliver) bool { is.slivers = append(is.slivers, r); return true }),
			v.Tasks(func(r am.Task) bool { is.tasks = append(is.tasks, r); return true }),
			v.Journal(func(r am.JournalEntry) bool {
				if _, ok := JournalRev(r.ID); !ok {
					t.Errorf("the number of a journal entry is %q", r.ID)
				}
				r.ID = ""
				is.journal = append(is.journal, r)
				return true
			}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	byURN := cmpopts.SortSlices(func(a, b am.Sliver) bool { return a.URN.Key() < b.URN.Key() })
	bySliver := cmpopts.SortSlices(func(a, b am.Task) bool { return a.Sliver.Key() < b.Sliver.Key() })
	if diff := cmp.Diff(x, is, cmp.AllowUnexported(sample{}), byURN, bySliver, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
