package api

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
)

// TestRace has 64 callers reserve 20 nodes at the same time. Every third request asks for an
// unknown type, and every seventh write fails. In the end each node has at most one owner, and the
// store has exactly the acknowledged slivers.
func TestRace(t *testing.T) {
	var writes atomic.Int64
	s := setting{fault: func() error {
		if writes.Add(1)%7 == 0 {
			return errors.New("the disk is full")
		}
		return nil
	}}.site(t)
	const callers, rounds = 64, 6
	alice := s.user("alice")
	type share struct{ slice, cred string }
	shares := make([]share, callers)
	for i := range shares {
		shares[i].slice, shares[i].cred = alice.slice(fmt.Sprintf("race%d", i), time.Hour)
	}
	for round := range rounds {
		var mu sync.Mutex
		acknowledged := map[string]bool{} // sliver URNs
		codes := map[am.Code]int{}
		var wg sync.WaitGroup
		for i, x := range shares {
			wg.Go(func() {
				rspec := request(node("a"), node("b"))
				if i%3 == 2 {
					rspec = request(node("a"), `<node client_id="b"><sliver_type name="none"/></node>`)
				}
				a := alice.call("Allocate", x.slice, creds(x.cred), rspec, opts())
				mu.Lock()
				defer mu.Unlock()
				codes[a.code]++
				if a.code == am.Success {
					for _, v := range a.slivers(t) {
						acknowledged[get(v, "geni_sliver_urn").(string)] = true
					}
				}
			})
		}
		wg.Wait()
		held, err := s.store.Slivers()
		if err != nil {
			t.Fatal(err)
		}
		owner := map[string]string{}
		for _, x := range held {
			if !acknowledged[x.URN.String()] {
				t.Errorf("round %d: sliver %s is held but was never acknowledged", round, x.URN)
			}
			if other, ok := owner[x.Component.String()]; ok {
				t.Errorf("round %d: %s belongs to %s and %s", round, x.Component, other, x.Slice)
			}
			owner[x.Component.String()] = x.Slice.String()
		}
		if len(held) != len(acknowledged) {
			t.Errorf("round %d: %d held, %d acknowledged", round, len(held), len(acknowledged))
		}
		// A request for an unknown type may share a write that fails.
		if codes[am.SearchFailed] > callers/3 || codes[am.SearchFailed]+codes[am.DBError] < callers/3 || codes[am.Success]+codes[am.DBError]+codes[am.TooBig]+codes[am.SearchFailed] != callers {
			t.Errorf("round %d: outcomes %v", round, codes)
		}
		ad := alice.call("ListResources", creds(alice.user), opts()).value.(string)
		if got := strings.Count(ad, `exclusive="true"`) - strings.Count(ad, `now="true"`) + 4; got != len(held) {
			t.Errorf("round %d: the advertisement shows %d held, the store %d", round, got, len(held))
		}
		for _, x := range shares {
			for { // until the write does not fail
				a := alice.call("Delete", strs(x.slice), creds(x.cred), opts())
				if a.code == am.Success || a.code == am.SearchFailed {
					break
				}
				if a.code != am.DBError {
					t.Fatalf("Delete: %d %s", a.code, a.output)
				}
			}
		}
	}
	if n := writes.Load() / 7; n < 3 {
		t.Errorf("only %d writes failed: the test proves little", n)
	}
}
