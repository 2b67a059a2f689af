package main

import (
	"strings"
	"testing"

	"patchbay/am"
)

// BenchmarkSetupStages switches on 20 real nodes with three commands each, plain and in three
// stages, and measures the time until all are ready. It reports what an added stage costs.
func BenchmarkSetupStages(b *testing.B) {
	const nodes, stages = 20, 3
	s := newSetupSite(b, "bench")
	staged := stagesRequest(nodes, stages, "true")
	plain := 0.0 // seconds
	for _, bm := range []struct{ name, request string }{
		{"plain", strings.NewReplacer(` setup:background="false"`, "", ` setup:order="0"`, "", ` setup:order="1"`, "", ` setup:order="2"`, "").Replace(staged)},
		{"stages", staged},
	} {
		b.Run(bm.name, func(b *testing.B) {
			x := s.slice(b, "bench")
			for b.Loop() {
				b.StopTimer()
				x.provision(bm.request)
				x.await("made", isOff)
				b.StartTimer()
				x.act(am.ActionStart)
				x.await("set up", isSetUp)
				b.StopTimer()
				x.delete()
				b.StartTimer()
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			if plain == 0 {
				plain = each
			} else {
				b.ReportMetric((each-plain)/(stages-1), "s/added-stage")
			}
		})
	}
}
