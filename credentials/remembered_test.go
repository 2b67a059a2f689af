package credentials_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// TestRememberedCredentialsKeepNothingOfTheDocument checks that a cached statement is small, also
// if its credential is large.
func TestRememberedCredentialsKeepNothingOfTheDocument(t *testing.T) {
	w := newWorld(t)
	levels := w.handedOn(w.bob)
	levels[0].Edit = func(doc string) string {
		return replace(t, doc, "<serial>8</serial>", "<serial>"+strings.Repeat("8", 500_000)+"</serial>")
	}
	delegated := pki.Delegated(t, levels...)
	spoken := pki.SpeaksFor{Signer: []*pki.Entity{w.alice, w.sa}, Tool: w.tool}.Signed(t)
	spoken = replace(t, spoken, "<signatures>", "<signatures><!--"+strings.Repeat("8", 500_000)+"-->")
	own := w.sliceCredential().Signed(t)
	bob, tool := w.caller(t, w.bob), w.caller(t, w.tool)
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	const n = 20
	for i := range n {
		another := func(doc string) string {
			return replace(t, doc, "<signatures>", fmt.Sprintf("<signatures><!--%d-->", i))
		}
		if _, err := w.z.Authorize(bob, sfa(another(delegated)), "", credentials.RightAllocate, now); err != nil {
			t.Fatal(err)
		}
		if _, err := w.z.Authorize(tool, sfa(another(spoken), own), aliceURN, credentials.RightAllocate, now); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d cached credentials of half a megabyte use %d kB", 2*n, grown>>10)
	}
	runtime.KeepAlive(w)
}
