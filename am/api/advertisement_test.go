package api

import (
	"fmt"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// changing is an aggregate whose advertisement changes before each call.
type changing struct {
	Aggregate
	ads     *rspec.Advertiser
	version uint64
}

func (c *changing) AdvertisementVersion() (uint64, error) {
	c.version++
	return c.version, nil
}

func (c *changing) AppendAdvertisement(b []byte, onlyFree bool) ([]byte, error) {
	return c.ads.Append(b, rspec.Availability{Generated: time.Unix(2e9, 0).UTC(), Free: func(i int) int { return i % 3 }, OnlyFree: onlyFree}), nil
}

func (c *changing) RSpecExtensions() (requests, advertisements []string) { return nil, nil }

func newChanging(nodes int) *changing {
	s := rspec.Site{Manager: urn.MustParse("urn:publicid:IDN+example.org+authority+cm"), GeneratedBy: "patchbay", Nodes: make([]rspec.AdNode, nodes)}
	for i := range s.Nodes {
		s.Nodes[i] = rspec.AdNode{
			ComponentID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+node+pc%d", i)), Name: fmt.Sprintf("pc%d", i), Exclusive: i%2 == 0,
			HardwareTypes: []string{"pc"}, Location: &rspec.Location{Country: "BE", Latitude: "51.04", Longitude: "3.73"},
			SliverTypes: []rspec.AdSliverType{{Name: "raw-pc", Images: []rspec.AdImage{{Name: "urn:publicid:IDN+example.org+image+debian", Default: true}}}},
		}
	}
	return &changing{ads: rspec.NewAdvertiser(s)}
}

// BenchmarkAdvertisementAfterAChange measures the first ListResources after a change.
func BenchmarkAdvertisementAfterAChange(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		a := New(newChanging(nodes), nil, Config{})
		for encoding, name := range []string{"plain", "compressed", "gzip"} {
			b.Run(fmt.Sprintf("%d nodes %s", nodes, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.advertisement(form{encoding: encoding}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
