package api

import (
	"fmt"
	"testing"
)

// BenchmarkAdvertisementAfterAChange measures the first ListResources after a change.
func BenchmarkAdvertisementAfterAChange(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		s := setting{inventory: fmt.Sprintf(`provider: simulated
images: [{name: debian}]
sliver_types: [{name: raw-pc, images: [debian], default_image: debian}]
hardware_types: [pc]
locations: [{name: ghent, country: BE, latitude: 51.04, longitude: 3.73}]
components: [{names: pc1..pc%d, exclusive: true, sliver_types: [raw-pc], hardware_types: [pc], location: ghent}]
`, nodes)}.site(b)
		for encoding, name := range []string{"plain", "compressed", "gzip"} {
			b.Run(fmt.Sprintf("%d nodes %s", nodes, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.api.prepared[encoding].now.Store(nil)
					if _, err := s.api.advertisement(form{encoding: encoding}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
