package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
)

func nodeID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", i) }

// BenchmarkLocal creates and removes nodes of one slice, with an account whose login is
// proven, and reports the time for each node. LAN are the same nodes on one LAN.
func BenchmarkLocal(b *testing.B) {
	s := newTestSite(b, "bench-l")
	s.node(b, nodeID(0), nil) // creates the image
	s.remove(b, nodeID(0))
	for _, kind := range []string{"Nodes", "LAN"} {
		for _, n := range []int{1, 20, 100} {
			b.Run(kind+strconv.Itoa(n), func(b *testing.B) {
				var created, removed time.Duration
				for b.Loop() {
					began := time.Now()
					s.setAll(b, n, func(i int) provider.Resource {
						slice := "urn:publicid:IDN+example.org+slice+bench"
						r := node("localhost", provider.Resource{
							"power": "on", "users": []string{s.user("alice")}, "slice_urn": slice, "client_id": "n" + strconv.Itoa(i),
						})
						if kind == "LAN" {
							r["interfaces"] = []string{fmt.Sprintf(`{"client_id":"n%d:0","link":"lan","slice":%q,"addresses":["10.7.0.%d/24"]}`, i, slice, i+1)}
						}
						return r
					}, provider.StateReady, n)
					created += time.Since(began)
					began = time.Now()
					s.setAll(b, n, func(int) provider.Resource { return provider.Resource{"ensure": provider.Absent} }, "", 0)
					removed += time.Since(began)
				}
				for unit, all := range map[string]time.Duration{"created-ms/node": created, "removed-ms/node": removed} {
					b.ReportMetric(float64(all.Milliseconds())/float64(b.N*n), unit)
				}
			})
		}
	}
}

// setAll sets n nodes at once, and waits until the testbed has count nodes, all in a state.
func (b *testSite) setAll(tb testing.TB, n int, should func(i int) provider.Resource, state string, count int) {
	tb.Helper()
	updates := make([]provider.Update, n)
	for i := range updates {
		r := should(i)
		updates[i] = provider.Update{Name: nodeID(i), Is: provider.Resource{"ensure": "present"}, Should: r}
		if r["ensure"] != provider.Absent {
			updates[i].Is["ensure"] = provider.Absent
		}
	}
	changes, err := b.provider.Set(tb.Context(), updates, false)
	for _, c := range changes {
		if c.Err != nil {
			err = c.Err
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	for end := time.Now().Add(bedTime); ; time.Sleep(5 * time.Millisecond) {
		a, err := b.request(local.Request{Action: local.ActionGet, Input: json.RawMessage(`{}`)}) // no process each time
		var got struct {
			Resources []struct{ State, Message string }
		}
		if err == nil {
			err = json.Unmarshal(a.Output, &got)
		}
		if err != nil {
			tb.Fatal(err)
		}
		settled := 0
		for _, r := range got.Resources {
			if r.State == state {
				settled++
			}
		}
		if settled == count && len(got.Resources) == count {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%d of %d nodes are %s: %v", settled, count, state, got.Resources)
		}
	}
}

// childrenOf returns the processes of "up" that run under a name.
func (b *testSite) childrenOf(name string) []int {
	var found []int
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.up.Process.Pid))
	for _, path := range all {
		children, _ := os.ReadFile(path)
		for pid := range strings.FieldsSeq(string(children)) {
			if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(line), name) {
				n, _ := strconv.Atoi(pid)
				found = append(found, n)
			}
		}
	}
	return found
}
