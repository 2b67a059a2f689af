package policy

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

func userURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.User, Name: name}
}

func sliceURN(project, name string) urn.URN {
	return urn.URN{Authority: "example.org:" + project, Type: urn.Slice, Name: name}
}

// TestUsageIsAPlainCount stages, publishes and takes back random changes, and
// holds what is counted against all slivers counted anew.
func TestUsageIsAPlainCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := NewUsage()
		published := map[string]am.Sliver{}
		staged := maps.Clone(published)
		users, projects := []string{"alice", "Alice", "bob"}, []string{"x", "X", "y"}
		t.Repeat(map[string]func(*rapid.T){
			"stage": func(t *rapid.T) {
				var cs store.ChangeSet
				for range rapid.IntRange(1, 3).Draw(t, "changes") {
					id := urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "sliver"))}
					if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
						cs = store.ChangeSet{}
						cs.Remove(store.SliverKey(id))
						delete(staged, id.Key())
						u.Stage(cs)
						continue
					}
					x, ok := staged[id.Key()]
					if !ok {
						x = am.Sliver{URN: id, Creator: userURN(rapid.SampledFrom(users).Draw(t, "user")),
							Slice: sliceURN(rapid.SampledFrom(projects).Draw(t, "project"), rapid.SampledFrom(users).Draw(t, "slice"))}
					}
					x.Status.Allocation = rapid.SampledFrom([]am.AllocationState{am.Allocated, am.Provisioned, am.Unallocated}).Draw(t, "state")
					x.Amount.Cores = rapid.Int64Range(0, 2).Draw(t, "cores")
					x.Amount.Disk = rapid.Int64Range(0, 2).Draw(t, "disk")
					cs = store.ChangeSet{}
					cs.PutSliver(x)
					staged[id.Key()] = x
					u.Stage(cs)
				}
			},
			"publish":  func(*rapid.T) { u.Publish(); published = maps.Clone(staged) },
			"rollback": func(*rapid.T) { u.Rollback(); staged = maps.Clone(published) },
			"": func(t *rapid.T) {
				tallies := map[string]bool{}
				for _, user := range users {
					for _, project := range projects {
						for _, name := range users {
							slice, want := sliceURN(project, name), Held{}
							for _, x := range staged {
								if x.Status.Allocation == am.Unallocated {
									continue
								}
								one := func(a *Amount) { a.Nodes++; a.Cores += x.Amount.Cores; a.Disk += x.Amount.Disk }
								tallies["u"+x.Creator.Key()], tallies["s"+x.Slice.Key()], tallies["p"+lower(x.Slice.Authority)] = true, true, true
								if x.Creator.Equal(userURN(user)) {
									one(&want.User)
								}
								if x.Slice.Equal(slice) {
									one(&want.Slice)
								}
								if lower(x.Slice.Authority) == lower(slice.Authority) {
									one(&want.Project)
								}
							}
							if got := u.Held(userURN(user), slice); got != want {
								t.Fatalf("%s in %s: got %+v, want %+v", user, slice, got, want)
							}
						}
					}
				}
				if n := len(u.users) + len(u.slices) + len(u.projects); n != len(tallies) {
					t.Fatalf("%d tallies are kept, %d count anything", n, len(tallies))
				}
			},
		})
	})
}
