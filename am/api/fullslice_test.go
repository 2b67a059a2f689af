package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/rspec"
)

// spoil replaces the texts of all stored requests by text that cannot be parsed.
func (s *site) spoil() {
	s.t.Helper()
	err := s.store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool {
			var doc am.Document
			if doc, _, err = v.Document(x.Document); err != nil {
				return false
			}
			doc.Text = []byte("no XML")
			cs.PutDocument(doc)
			return true
		})
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestDecisionsParseNoDocument checks that Allocate, Renew and Delete never parse the stored
// requests of a slice. They use the names stored beside them.
func TestDecisionsParseNoDocument(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", time.Hour)
	end := func(id string) string {
		return `<node client_id="` + id + `" exclusive="false"><sliver_type name="vm"/><interface client_id="` + id + `:0"/></node>`
	}
	link := `<link client_id="lan"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`
	x.allocate(request(end("a"), end("b"), link)).want(t, "Allocate", am.Success)
	s.spoil()
	for _, c := range []struct{ rule, request string }{
		{`node "a" is in the slice already`, request(node("a"))},
		{`interface "b:0" is in the slice already`, request(`<node client_id="c"><interface client_id="b:0"/></node>`)},
		{`link "lan" is in the slice already`, request(strings.Replace(end("c"), "c:0", "c:1", 1), `<link client_id="lan"><interface_ref client_id="c:1"/></link>`)},
	} {
		if a := x.allocate(c.request).want(t, c.rule, am.Exists); !strings.Contains(a.output, c.rule) {
			t.Errorf("%s: %s", c.rule, a.output)
		}
	}
	x.allocate(request(node("free"))).want(t, "Allocate of other names", am.Success)
	x.call("Renew", strs(x.slice), creds(x.cred), s.at(time.Minute), opts()).want(t, "Renew", am.Success)
	x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete", am.Success)
}

// TestRequestsOfASliceAreBoundedTogether checks that the limits of bytes and elements count for all
// requests of a slice together. Allocate reports the limit and the current size. Describe still
// works, and Delete makes room.
func TestRequestsOfASliceAreBoundedTogether(t *testing.T) {
	wide := func(id string, n int) string {
		return request(`<node client_id="` + id + `" exclusive="false"><sliver_type name="vm"/>` + strings.Repeat("<x/>", n) + `</node>`)
	}
	long := func(id string, n int) string {
		return request(`<node client_id="` + id + `" exclusive="false"><sliver_type name="vm"/><!--` + strings.Repeat("x", n) + `--></node>`)
	}
	// A manifest of both declares each conflicting prefix at each child of the root.
	spaces := func(id string, n int) string {
		return strings.Replace(request(`<node client_id="`+id+`" exclusive="false"><sliver_type name="vm"/></node>`+strings.Repeat("<p:x/>", n)), "<rspec ", `<rspec xmlns:p="urn:`+id+strings.Repeat("x", 900)+`" `, 1)
	}
	for _, c := range []struct {
		rule, first, second, names, has string
		limits                          rspec.Limits
	}{
		{"elements", wide("a", 90), wide("b", 90), "Delete slivers of the slice first", "may have 100 elements together; the requests of this slice have 93", rspec.Limits{Elements: 100}},
		{"bytes", long("a", 5000), long("b", 5000), "limits.rspec.bytes", "may have 10000 bytes together", rspec.Limits{Bytes: 10000}},
		{"namespaces, written at each element", spaces("a", 60), spaces("b", 60), "limits.rspec.bytes", "may have 100000 bytes together", rspec.Limits{Bytes: 100000}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := setting{limits: c.limits}.site(t)
			x := s.user("alice").own("s1", time.Hour)
			x.allocate(c.first).want(t, "the first", am.Success)
			a := x.allocate(c.second).want(t, "the second", am.TooBig)
			if !strings.Contains(a.output, c.names) || !strings.Contains(a.output, c.has) {
				t.Errorf("the output is %q, want %q and %q", a.output, c.has, c.names)
			}
			x.allocate(request(node("small"))).want(t, "a small one", am.Success)
			x.call("Describe", strs(x.slice), creds(x.cred), opts()).want(t, "Describe", am.Success)
			x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete", am.Success)
			s.settle()
			x.allocate(c.second).want(t, "the second alone", am.Success)
		})
	}
}

// TestMemoryOfRequestsIsShared checks that a caller who uses all their memory for requests gets
// SERVERBUSY before anything is parsed or changed. Other callers succeed.
func TestMemoryOfRequestsIsShared(t *testing.T) {
	s := newSite(t)
	memory := s.api.agg.Memory()
	x, bob := s.user("alice").own("s1", time.Hour), s.user("bob").own("s2", time.Hour)
	x.allocate(request(node("a"))).want(t, "Allocate", am.Success)
	release, err := memory.Hold(x.urn.Key(), 8<<20, 200_000)
	if err != nil {
		t.Fatal(err)
	}
	large := request(`<node client_id="b" exclusive="false"><sliver_type name="vm"/>` + strings.Repeat("<x/>", 100_000) + `</node>`)
	for size := 4 << 20; size > 0; { // the rest of alice's share
		if _, err := memory.Hold(x.urn.Key(), size, 0); err != nil {
			size /= 2
		}
	}
	for what, a := range map[string]answer{
		"Allocate":  x.allocate(large),
		"Describe":  x.call("Describe", strs(x.slice), creds(x.cred), opts()),
		"Provision": x.call("Provision", strs(x.slice), creds(x.cred), opts()),
		"Status":    x.call("Status", strs(x.slice), creds(x.cred), opts()),
	} {
		if a.want(t, what, am.ServerBusy); !strings.Contains(a.output, "try again later") {
			t.Errorf("%s: %s", what, a.output)
		}
	}
	bob.allocate(request(node("c"))).want(t, "Allocate of another user", am.Success)
	release()
	status := x.call("Status", strs(x.slice), creds(x.cred), opts()).want(t, "Status", am.Success)
	for _, sl := range status.slivers(t) {
		if got := get(sl, "geni_allocation_status"); got != "geni_allocated" {
			t.Errorf("after a Provision that was refused as busy it is %v", got)
		}
	}
	x.allocate(large).want(t, "Allocate with memory", am.Success)
	x.call("Describe", strs(x.slice), creds(x.cred), opts()).want(t, "Describe with memory", am.Success)
}

// TestOneCallerLeavesMemoryToOthers checks that small requests of other callers succeed while one
// or two callers hold all the memory they can get.
func TestOneCallerLeavesMemoryToOthers(t *testing.T) {
	s := newSite(t)
	memory := s.api.agg.Memory()
	bob := s.user("bob").own("s1", time.Hour)
	bob.allocate(request(`<node client_id="b" exclusive="false"><sliver_type name="vm"/>`+strings.Repeat("<x/>", 20_000)+`</node>`)).want(t, "Allocate", am.Success)
	if _, err := memory.Hold("alice", 8<<20, 200_000); err != nil {
		t.Fatal(err)
	}
	for size := 4 << 20; size > 0; { // the rest of her share
		if _, err := memory.Hold("alice", size, 0); err != nil {
			size /= 2
		}
	}
	bob.call("Describe", strs(bob.slice), creds(bob.cred), opts()).want(t, "Describe", am.Success)
	for size := 8 << 20; size > 1<<10; { // a second caller takes the rest except for some kB
		if _, err := memory.Hold("mallory", size, 0); err != nil {
			size /= 2
		}
	}
	s.user("carol").own("s2", time.Hour).allocate(request(node("c"))).want(t, "a small Allocate", am.Success)
}

// TestNothingIsHeldAfterACall checks that a call releases its memory, whether it succeeds or fails.
func TestNothingIsHeldAfterACall(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", time.Hour)
	x.allocate(request(node("a"))).want(t, "Allocate", am.Success)
	x.allocate(request(node("a"))).want(t, "Allocate again", am.Exists)
	x.allocate("no XML").want(t, "Allocate of nothing", am.BadArgs)
	x.call("Provision", strs(x.slice), creds(x.cred), opts()).want(t, "Provision", am.Success)
	x.call("Provision", strs(x.slice), creds(x.cred), opts()).want(t, "Provision again", am.SearchFailed)
	x.call("Describe", strs(x.slice), creds(x.cred), opts()).want(t, "Describe", am.Success)
	x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete", am.Success)
	x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete again", am.SearchFailed)
	// If nothing is held, two callers get all memory except the reserve.
	size, elements := rspec.Limits{}.PerSlice()
	for caller, part := range map[string]int{"one": 1, "two": 2} {
		if _, err := s.api.agg.Memory().Hold(caller, size/part, elements/part); err != nil {
			t.Errorf("memory is still held: %v", err)
		}
	}
}

// TestManifestStopsWhenItsClientHasGone checks that no request is parsed for a client that has
// disconnected.
func TestManifestStopsWhenItsClientHasGone(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", time.Hour)
	x.allocate(request(node("a"))).want(t, "Allocate", am.Success)
	s.spoil()
	ctx, gone := context.WithCancel(t.Context())
	gone()
	body := callBody(t, "Describe", strs(x.slice), creds(x.cred), opts())
	if resp := s.api.Serve(ctx, Version3, Request{Chain: x.chain, Body: body}); resp.Event.Code != am.TimedOut {
		t.Errorf("code %d, %v", resp.Event.Code, resp.Event.Err)
	}
}

// TestRefusalsDoNotWaitForTheCommitter checks that calls which the state of the slice forbids are
// refused while the committer is busy.
func TestRefusalsDoNotWaitForTheCommitter(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", time.Hour)
	var in strings.Builder
	for j := range 12_000 {
		fmt.Fprintf(&in, `<interface client_id="n:if%d"/>`, j)
	}
	x.allocate(request(`<node client_id="n" exclusive="false"><sliver_type name="vm"/>`+in.String()+`</node>`)).want(t, "Allocate", am.Success)
	busy, done, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		ended <- s.store.Commit(context.Background(), func(*store.View) (store.ChangeSet, error) {
			close(busy)
			<-done
			return store.ChangeSet{}, nil
		})
	}()
	<-busy
	answers := make(chan func())
	go func() {
		again := x.allocate(request(node("n")))
		late := x.call("Renew", strs(x.slice), creds(x.cred), s.at(-time.Minute), opts())
		answers <- func() {
			again.want(t, "Allocate of the same name", am.Exists)
			late.want(t, "Renew until what has passed", am.BadArgs)
		}
	}()
	select {
	case check := <-answers:
		check()
		close(done)
	case <-time.After(time.Minute):
		t.Error("refused calls wait for the committer")
		close(done)
		(<-answers)()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	x.allocate(request(node("other"))).want(t, "Allocate of another name", am.Success)
}
