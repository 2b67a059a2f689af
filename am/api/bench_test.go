package api

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/xmlrpc"
)

// BenchmarkAllocateDelete is the durable pair of calls without TLS, counted in
// calls; eight slices for each processor call at the same time.
func BenchmarkAllocateDelete(b *testing.B) {
	s := newSite(b)
	alice := s.user("alice")
	type share struct{ allocate, delete []byte }
	shares := make([]share, 16)
	for i := range shares {
		slice, cred := alice.slice(fmt.Sprintf("b%d", i), time.Hour)
		shares[i].allocate, _ = xmlrpc.AppendCall(nil, xmlrpc.Call{Method: "Allocate", Params: []xmlrpc.Value{slice, creds(cred), request(node("a")), opts()}})
		shares[i].delete, _ = xmlrpc.AppendCall(nil, xmlrpc.Call{Method: "Delete", Params: []xmlrpc.Value{strs(slice), creds(cred), opts()}})
	}
	var next atomic.Int64
	b.ResetTimer()
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		x := shares[int(next.Add(1)-1)%len(shares)]
		for i := 0; pb.Next(); i++ {
			body := x.allocate
			if i%2 == 1 {
				body = x.delete
			}
			resp := s.api.Serve(b.Context(), 3, Request{Chain: alice.chain, Body: body})
			if resp.Event.Code != 0 {
				b.Errorf("%s: %d %s", resp.Event.Method, resp.Event.Code, resp.Event.Output)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkListResources is the prepared answer, in both versions.
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
