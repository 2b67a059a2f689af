package api

import (
	"fmt"
	"testing"

	"patchbay/am/api/xmlrpc"
)

// BenchmarkListResources measures the cached answer in both versions.
func BenchmarkListResources(b *testing.B) {
	s := newSite(b)
	alice := s.user("alice")
	for version, list := range map[int][]xmlrpc.Value{Version2: strs(alice.user), Version3: creds(alice.user)} {
		b.Run(fmt.Sprintf("v%d", version), func(b *testing.B) {
			body := callBody(b, "ListResources", list, opts(opt("geni_compressed", true)))
			b.ReportAllocs()
			for b.Loop() {
				s.api.Serve(b.Context(), version, Request{Chain: alice.chain, Body: body})
			}
		})
	}
}
