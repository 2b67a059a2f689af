package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/client"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// BenchmarkPages measures pages at a site of 10,000 components: the processor time of the server for each, the bytes of a compressed
// answer, and what another member's calls take while one member fetches pages from 32 connections.
func BenchmarkPages(b *testing.B) {
	s := newServedSite(b, "testbed.example.org", nil, nil)
	program.Edit(b, filepath.Join(s.dir, "inventory.yaml"), "- names: pc1..pc12\n", "- names: pc1001..pc11000\n")
	s.appendSettings(instantNodes)
	s.createUser("alice")
	s.createUser("bob")
	s.start()
	alice, bob := s.signIn("user", "alice", "--link"), s.newAuditUser("bob")
	page := alice.start("large", requestOfNodes(50))
	wait.Until(b, "50 nodes are ready", func() bool { return strings.Count(alice.get(page).text, `s-ready`) >= 50 })
	nobody := s.visit()
	measure := func(name string, v *visitor, path string, between func()) {
		b.Run(name, func(b *testing.B) {
			if a := v.get(path); a.status != 200 {
				b.Fatalf("%d %s", a.status, a.text)
			}
			var used, size float64
			for b.Loop() {
				between()
				before := s.processorTime(b)
				a := v.send("GET", path, nil, "Accept-Encoding", "gzip")
				used += s.processorTime(b) - before
				size = float64(len(a.text))
			}
			b.ReportMetric(1000*used/float64(b.N), "cpu-ms/page")
			b.ReportMetric(size/1024, "kB/page")
		})
	}
	nothing := func() {}
	measure("free now", nobody, "/ui/", nothing)
	measure("free now after a change", nobody, "/ui/", func() { bob.allocate(b, program.SmallRequest); bob.remove(b) })
	measure("experiment of 50 nodes", alice, page, nothing)
	measure("experiments", alice, "/ui/mine", nothing)
	b.Run("beside a flood", func(b *testing.B) {
		ctx, stop := context.WithCancel(b.Context())
		var flood sync.WaitGroup
		var pages [32]int
		for i := range pages {
			flood.Go(func() {
				for ctx.Err() == nil {
					if a := alice.get(page); a.status == http.StatusOK {
						pages[i]++
					}
				}
			})
		}
		var slowest time.Duration
		begun := time.Now()
		for b.Loop() {
			for _, call := range []func(){func() { bob.allocate(b, program.SmallRequest) }, func() { bob.remove(b) }, func() { nobody.get("/ui/") }} {
				begin := time.Now()
				call()
				slowest = max(slowest, time.Since(begin))
			}
		}
		took := time.Since(begun)
		stop()
		flood.Wait()
		sum := 0
		for _, n := range pages {
			sum += n
		}
		b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
		b.ReportMetric(float64(sum)/took.Seconds(), "flood-pages/s")
	})
}

// requestOfNodes returns a request of n virtual machines on a LAN.
func requestOfNodes(n int) string {
	var nodes, refs strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, `<node client_id="n%d" exclusive="true"><sliver_type name="raw-pc"/><interface client_id="n%d:if0"/></node>`, i, i)
		fmt.Fprintf(&refs, `<interface_ref client_id="n%d:if0"/>`, i)
	}
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">` + nodes.String() + `<link client_id="lan">` + refs.String() + `</link></rspec>`
}

// processorTime returns the processor time that the server has used, in seconds.
func (s *servedSite) processorTime(t testing.TB) float64 {
	t.Helper()
	var nanoseconds float64
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, file := range tasks {
		var one float64
		fmt.Sscan(program.ReadFile(t, file), &one)
		nanoseconds += one
	}
	return nanoseconds / 1e9
}

func (in *auditUser) allocate(t testing.TB, request string) {
	t.Helper()
	if _, _, err := in.Allocate(context.Background(), in.SliceURN, in.ForSlice(), request, client.Options{}); err != nil {
		t.Error(err)
	}
}

func (in *auditUser) remove(t testing.TB) {
	t.Helper()
	if _, _, err := in.Delete(context.Background(), []string{in.SliceURN}, in.ForSlice(), client.Options{}); err != nil {
		t.Error(err)
	}
}
