package api

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/rspec"
)

// changing is an aggregate whose advertisement changes whenever one asks.
type changing struct {
	Aggregate
	ads     *rspec.Advertiser
	version uint64
}

func (c *changing) AdvertisementVersion() uint64 {
	c.version++
	return c.version
}

func (c *changing) AppendAdvertisement(b []byte, onlyFree bool) []byte {
	return c.ads.Append(b, rspec.Availability{Generated: time.Unix(2e9, 0).UTC(), Free: func(i int) int { return i % 3 }, OnlyFree: onlyFree})
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

// TestFormsOfTheAdvertisement holds that each way to ask for it gives the same text.
func TestFormsOfTheAdvertisement(t *testing.T) {
	agg := newChanging(20)
	a := New(agg, nil, Config{})
	for i := range 2 * encodings {
		f := form{i%2 == 0, i / 2}
		body, err := a.advertisement(f)
		if err != nil {
			t.Fatal(err)
		}
		if f.encoding == encodeGzip {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := get(answer, "value").(string)
		if f.encoding == encodeCompressed {
			packed, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			z, err := zlib.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			text = string(plain)
		}
		if want := agg.AppendAdvertisement(nil, f.free); text != string(want) {
			t.Errorf("%+v: %s", f, text)
		}
	}
}

// BenchmarkAdvertisementAfterAChange is what the first reader after a change
// waits for.
func BenchmarkAdvertisementAfterAChange(b *testing.B) {
	for _, nodes := range []int{10_000, 100_000} {
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
