package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
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

// BenchmarkStatus is the cheapest call, which clients poll, in both versions.
func BenchmarkStatus(b *testing.B) {
	s := newSite(b)
	x := s.user("alice").own("b", time.Hour)
	x.create(request(node("a"))).want(b, "CreateSliver", am.Success)
	for version, body := range map[int][]byte{
		Version2: callBody(b, "SliverStatus", x.slice, strs(x.cred), xmlrpc.Struct{}),
		Version3: callBody(b, "Status", strs(x.slice), creds(x.cred), xmlrpc.Struct{}),
	} {
		b.Run(fmt.Sprintf("v%d", version), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.api.Serve(b.Context(), version, Request{Chain: x.chain, Body: body})
			}
		})
	}
}

// BenchmarkRenewWithKeys renews twenty nodes that carry as many keys as they
// may: each renewal writes them again.
func BenchmarkRenewWithKeys(b *testing.B) {
	s := newSite(b)
	x := s.user("alice").own("keys", 24*time.Hour)
	var nodes []string
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i)))
	}
	var users []xmlrpc.Value
	for u := range 10 { // 10 times 64 keys of 320 bytes on 20 nodes
		var keys []xmlrpc.Value
		for k := range 64 {
			raw := fmt.Sprintf("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20%016d%016d", u, k)
			keys = append(keys, "ssh-ed25519 "+base64.StdEncoding.EncodeToString([]byte(raw))+" "+strings.Repeat("c", 240))
		}
		users = append(users, xmlrpc.Struct{{Name: "urn", Value: fmt.Sprintf("urn:publicid:IDN+example.org+user+u%d", u)}, {Name: "keys", Value: keys}})
	}
	x.allocate(request(nodes...)).want(b, "Allocate", am.Success)
	x.call("Provision", strs(x.slice), creds(x.cred), opts(opt("geni_users", users))).want(b, "Provision", am.Success)
	body := callBody(b, "Renew", strs(x.slice), creds(x.cred), s.at(time.Hour), opts())
	b.ReportAllocs()
	for b.Loop() {
		if resp := s.api.Serve(b.Context(), Version3, Request{Chain: x.chain, Body: body}); resp.Event.Code != am.Success {
			b.Fatal(resp.Event.Output)
		}
	}
}
