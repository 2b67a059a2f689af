package modeltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/am/work"
)

// done is the result of a call, for the checker.
type done struct {
	code    am.Code
	slivers []part // the slivers in the answer
}

// concurrentHistory lets several callers use a few slices at the same time, and returns the
// history of their calls. One write in ten fails.
func concurrentHistory(t *testing.T, seed uint64, callers, calls int) []porcupine.Operation {
	t.Helper()
	w := newEnvironment(t, offer)
	w.ahead = time.Until(began)
	w.trustedAhead = w.ahead
	w.groupWrites = true
	w.limits = work.Limits{PollMin: time.Millisecond, Sweep: time.Hour}
	var writes atomic.Int64
	w.before = func(int) error {
		if writes.Add(1)%10 == 0 {
			return errDisk
		}
		return nil
	}
	s := w.open()
	defer s.kill()
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	// At most eight calls run at the same time. With more the checker would have to try
	// too many orders.
	places := make(chan struct{}, 8)
	for i := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range calls {
				slice := fmt.Sprint("s", 1+r.IntN(3))
				a := ask{version: 3, slice: slice, method: []string{"Allocate", "Allocate", "Allocate", "Describe", "Describe", "Describe", "Renew", "Renew", "Delete", "Delete", "Provision", "Shutdown", "Thaw", "Thaw"}[r.IntN(14)]}
				a.time = began.Add(time.Duration(300+i*calls+n) * time.Second)
				if isAhead := r.IntN(2) == 0; isAhead { // in slices of their own
					a.slice = fmt.Sprint("ahead", 1+r.IntN(2))
					if a.method == "Provision" {
						a.method = "Renew"
					}
					a.start = aheadFrom.Add(time.Duration(r.IntN(3)) * time.Hour)
					a.time = a.start.Add(time.Hour)
				}
				if a.method == "Allocate" {
					a.change = a.start.IsZero() && r.IntN(2) == 0
					for range 1 + r.IntN(2) {
						x := askedNode{client: fmt.Sprintf("n%d-%d", r.IntN(6), len(a.nodes)), kind: []string{"raw-pc", "vm"}[r.IntN(2)]}
						if r.IntN(3) == 0 {
							x.where = map[string]string{"raw-pc": fmt.Sprint("pc", 1+len(a.nodes)+2*r.IntN(2)), "vm": fmt.Sprint("host", 1+r.IntN(2))}[x.kind]
						}
						x.linked = a.change && r.IntN(2) == 0
						a.nodes = append(a.nodes, x)
					}
				}
				places <- struct{}{}
				called := time.Since(start)
				out := s.one(a)
				returned := time.Since(start)
				<-places
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: i, Input: a, Call: int64(called), Output: out, Return: int64(returned)})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history
}

// one makes a call and reads its answer.
func (s *site) one(a ask) (out done) {
	c := s.alice(a.slice, forever)
	var got answer
	switch a.method {
	case "Thaw":
		switch err := s.thaw(a.slice); {
		case err == nil:
		case errors.Is(err, store.ErrNotCommitted):
			out.code = am.DBError
		default:
			out.code = am.Refused
		}
		return out
	case "Allocate":
		o := []xmlrpc.Member{opt("patchbay_change", a.change)}
		if !a.start.IsZero() { // they provision themselves, so Renew moves their end
			o = []xmlrpc.Member{opt("geni_start_time", stamp(a.start)), opt("geni_end_time", stamp(a.time)), opt("patchbay_provision_at_start", true)}
		}
		got = c.allocate(a.rspec(), o...)
	case "Renew":
		got = c.v3("Renew", nil, stamp(a.time), opts())
	case "Shutdown":
		got = c.call(3, "Shutdown", c.slice, creds(c.credential), opts())
	default:
		got = c.v3(a.method, nil, opts())
	}
	out.code = got.code
	if got.code != am.Success {
		return out
	}
	where := map[string]string{}
	for _, m := range manifestNode.FindAllStringSubmatch(got.manifest(), -1) {
		is := map[string]string{}
		for _, x := range attribute.FindAllStringSubmatch(m[1], -1) {
			is[x[1]] = x[2]
		}
		where[is["sliver_id"]] = regexp.MustCompile(`[^+]*$`).FindString(is["component_id"])
	}
	for _, x := range got.slivers() {
		from := int64(0)
		if !x.begins.IsZero() {
			from = x.begins.Unix()
		}
		out.slivers = append(out.slivers, part{from: from, urn: x.urn, client: x.client, component: where[x.urn], made: x.allocation == "geni_provisioned", linked: strings.Contains(got.manifest(), `<link client_id="of-`+x.client+`"`), expires: x.expires.Unix()})
	}
	return out
}

// TestHistoriesAreLinearizable checks that the answers to concurrent calls are possible
// answers to the same calls one after the other, each between its start and its return. A
// call that could not be written has changed nothing.
//
// PATCHBAY_HISTORIES is the number of histories.
func TestHistoriesAreLinearizable(t *testing.T) {
	loadUsers(t)
	rounds := setting(t, "PATCHBAY_HISTORIES", 8)
	seed := require.Seed(t)
	operations, codes := 0, map[string]int{}
	began := time.Now()
	for round := range rounds {
		history := concurrentHistory(t, seed+uint64(round), 24, 12)
		operations += len(history)
		for _, o := range history {
			name := o.Input.(ask).method
			if a := o.Input.(ask); a.change {
				name += " as a change"
			} else if !a.start.IsZero() {
				name += " ahead"
			}
			codes[fmt.Sprintf("%s %d", name, o.Output.(done).code)]++
		}
		if result, info := porcupine.CheckOperationsVerbose(sequential, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("PATCHBAY_SEED=%d, history %d of %d calls: %s; see %s", seed, round, len(history), result, picture(t, info))
		}
	}
	t.Logf("seed %d: %d histories, %d calls, %v: %v", seed, rounds, operations, time.Since(began).Round(time.Millisecond), codes)
}

// picture writes the checker's result to a file that is not removed, and returns the file's
// name.
func picture(t *testing.T, info porcupine.LinearizationInfo) string {
	file := filepath.Join(os.TempDir(), "patchbay-history-"+strings.ReplaceAll(t.Name(), "/", "-")+".html")
	if err := porcupine.VisualizePath(sequential, info, file); err != nil {
		return err.Error()
	}
	return file
}
