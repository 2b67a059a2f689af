package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// BenchmarkLargeSlices makes calls of alice for 2,000 nodes, and small ones of bob at the same time. It
// reports the longest decision so far, and bob's slowest call, after each call of alice.
func BenchmarkLargeSlices(b *testing.B) {
	const nodes = 2000
	var kinds, equal, differ strings.Builder
	for i := range 50 {
		fmt.Fprintf(&kinds, "  - {names: k%d-1..k%d-200, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: %d, memory.size: %dG}}\n", i, i, 1+i, 8*(1+i%10))
	}
	const prefix = ` xmlns:match="http://patchbay.example.org/rspec/ext/match/1"`
	for i := range nodes {
		fmt.Fprintf(&equal, `<node client_id="n%d" exclusive="true"/>`, i)
		fmt.Fprintf(&differ, `<node client_id="n%d" exclusive="true"><match:require feature="cpu.count" op="&gt;=" value="%d"/><match:prefer weight="%d"><match:require feature="memory.size" op="&gt;=" value="%dG"/></match:prefer></node>`, i, 1+i%5, 1+i%1000, 8*(1+i%10))
	}
	inventory := "provider: simulated\nimages: [{name: debian}]\nsliver_types: [{name: pc, images: [debian], default_image: debian}]\ndefault_sliver_type: pc\ncomponents:\n" + kinds.String()
	for _, tt := range []struct{ name, nodes string }{{"equal nodes", equal.String()}, {"nodes that differ", differ.String()}} {
		b.Run(tt.name, func(b *testing.B) {
			s := setting{inventory: inventory}.site(b)
			s.store.Commit(b.Context(), func(*store.View) (cs store.ChangeSet, err error) { cs.PutCursor("follower", ""); return cs, nil }) // so that changes are written
			alice, bob := s.user("alice").own("big", 30*24*time.Hour), s.user("bob").own("small", 30*24*time.Hour)
			stop, slowest := make(chan bool), make(chan time.Duration)
			beside := func() {
				var most time.Duration
				for {
					select {
					case <-stop:
						slowest <- most
						return
					default:
						began := time.Now()
						bob.allocate(request(`<node client_id="a" exclusive="true"/>`)).want(b, "Allocate", am.Success)
						bob.call("Delete", strs(bob.slice), creds(bob.cred), opts()).want(b, "Delete", am.Success)
						most = max(most, time.Since(began))
						s.settle()
					}
				}
			}
			text := strings.Replace(request(tt.nodes), "<rspec", "<rspec"+prefix, 1)
			at := FormatTime(s.clock().Add(24 * time.Hour))
			for b.Loop() {
				for _, call := range []struct {
					name string
					do   func() answer
				}{
					{"Allocate", func() answer { return alice.allocate(text) }},
					{"Provision", func() answer { return alice.call("Provision", strs(alice.slice), creds(alice.cred), opts()) }},
					{"Renew", func() answer { return alice.call("Renew", strs(alice.slice), creds(alice.cred), at, opts()) }},
					{"Delete", func() answer { return alice.call("Delete", strs(alice.slice), creds(alice.cred), opts()) }},
				} {
					go beside()
					began := time.Now()
					call.do().want(b, call.name, am.Success)
					b.ReportMetric(float64(time.Since(began).Milliseconds()), call.name+"-ms")
					stop <- true
					b.ReportMetric(float64((<-slowest).Milliseconds()), call.name+"-bob-ms")
					b.ReportMetric(float64(s.store.LongestDecision().Microseconds())/1000, call.name+"-longest-ms")
					s.settle()
				}
			}
		})
	}
}
