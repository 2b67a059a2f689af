package main

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
)

// BenchmarkSetupStages switches on 20 real nodes with three commands each, plain and in three
// stages. It reports the time until the last command has ended, and what a stage adds to it.
func BenchmarkSetupStages(b *testing.B) {
	const nodes, stages = 20, 3
	s := newSetupSite(b, "bench")
	staged := stagesRequest(nodes, stages, 0)
	plain := 0.0 // seconds
	for _, bm := range []struct{ name, request string }{
		{"plain", strings.NewReplacer(` setup:background="false"`, "", ` setup:order="0"`, "", ` setup:order="1"`, "", ` setup:order="2"`, "").Replace(staged)},
		{"stages", staged},
	} {
		b.Run(bm.name, func(b *testing.B) {
			x := s.slice(b, "bench")
			took := time.Duration(0)
			for b.Loop() {
				x.provision(bm.request)
				x.await("made", isOff)
				began := time.Now()
				x.act(am.ActionStart)
				took += lastOf(printedSpans(b, x.awaitSetUp())).Sub(began)
				x.delete()
			}
			each := took.Seconds() / float64(b.N)
			b.ReportMetric(each, "s/setup")
			if plain == 0 {
				plain = each
			} else {
				b.ReportMetric((each-plain)/(stages-1), "s/added-stage")
			}
		})
	}
}
