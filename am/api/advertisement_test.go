package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
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

// TestBodiesOfWindowsAreUsedAgain asks for windows of a site, one after the other; each row says whether the body is the one of
// the first call.
func TestBodiesOfWindowsAreUsedAgain(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice").own("s1", 240*time.Hour)
	get := func(f form, hours int) *byte {
		t.Helper()
		start := began.Add(time.Duration(hours) * time.Hour)
		body, err := s.api.windowAdvertisement(t.Context(), f, start, start.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return &body[0]
	}
	first := get(form{}, 2)
	for _, tt := range []struct {
		rule string
		do   func()
		want bool
	}{
		{"the same window", func() {}, true},
		{"after another one", func() { get(form{}, 3) }, true},
		{"after two others", func() { get(form{}, 3); get(form{free: true}, 2) }, false},
		{"after a change", func() { alice.call("Allocate", alice.slice, creds(alice.cred), request(node("a")), opts()) }, false},
		{"after a minute", func() { s.pass(windowAge) }, false},
	} {
		if tt.do(); (get(form{}, 2) == first) != tt.want {
			t.Errorf("%s: used again is %v", tt.rule, !tt.want)
		}
		first = get(form{}, 2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.api.windows.making <- struct{}{} // another call makes one
	if _, err := s.api.windowAdvertisement(ctx, form{}, began, began.Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose client has gone waits: %v", err)
	}
}
