package api

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
)

// TestNamedSlivers checks that an answer has every named sliver once, in the order of the call.
func TestNamedSlivers(t *testing.T) {
	b := newBench(t)
	second, cred2 := b.alice.slice("second", time.Hour)
	x, y := b.x.URN.String(), b.y.URN.String()
	other := strings.Replace(missing, "missing", "other", 1)
	upper := func(u string) string { i := strings.LastIndex(u, "+"); return u[:i] + strings.ToUpper(u[i:]) }
	for _, tt := range []struct {
		rule       string
		urns       []string
		bestEffort bool
		code       am.Code
		told       []string // in their order
	}{
		{"some", []string{y}, false, am.Success, []string{y}},
		{"in the order named", []string{y, x}, false, am.Success, []string{y, x}},
		{"twice", []string{y, y, x, y}, false, am.Success, []string{y, x}},
		{"in other letters, too", []string{x, upper(x)}, false, am.Success, []string{x}},
		{"one is missing", []string{x, missing}, false, am.SearchFailed, nil},
		{"one is missing, best effort", []string{missing, x, missing, other, missing}, true, am.Success, []string{x, missing, other}},
		{"all are missing, best effort", []string{missing, other}, true, am.SearchFailed, nil},
		{"the slice in other letters", []string{upper(b.slice)}, false, am.Success, []string{x, y}},
		{"the slice twice", []string{b.slice, upper(b.slice)}, false, am.Success, []string{x, y}},
	} {
		for _, method := range []string{"Status", "Describe", "Provision", "Renew", "geni_start", "Delete"} {
			state := map[string]string{"Provision": "allocated", "geni_start": "notready"}[method]
			if state == "" {
				state = "ready"
			}
			b.put(in(b.x, state), in(b.y, state))
			a := b.do(method, tt.bestEffort, tt.urns...)
			if a.code != tt.code {
				t.Errorf("%s, %s: code %d %q, want %d", method, tt.rule, a.code, a.output, tt.code)
				continue
			}
			if tt.code != am.Success {
				continue
			}
			var told []string
			for _, s := range a.slivers(t) {
				told = append(told, get(s, "geni_sliver_urn").(string))
			}
			if !slices.Equal(told, tt.told) {
				t.Errorf("%s, %s: %v, want %v", method, tt.rule, told, tt.told)
			}
			if s, ok := a.value.(xmlrpc.Struct); ok && method != "Provision" && !strings.EqualFold(get(s, "geni_urn").(string), b.slice) {
				t.Errorf("%s, %s: geni_urn %v", method, tt.rule, get(s, "geni_urn"))
			}
		}
	}

	// A call for slivers of two slices is refused, also with rights to both and with
	// best effort. Without rights to one of them the answer does not name it.
	b.put(in(b.x, "allocated"), in(b.y, "allocated"))
	z := get(b.alice.call("Allocate", second, creds(cred2), request(node("z")), opts()).want(t, "Allocate", am.Success).slivers(t)[0], "geni_sliver_urn").(string)
	for _, effort := range []bool{false, true} {
		for _, tt := range []struct {
			urns  []xmlrpc.Value
			creds []xmlrpc.Value
			code  am.Code
		}{
			{strs(x, z), creds(b.cred, cred2), am.BadArgs},
			{strs(x, z), creds(b.cred), am.Forbidden},
			{strs(z, x), creds(b.cred), am.Forbidden},
			{strs(x, missing, z), creds(b.cred), am.Forbidden},
			{strs(b.slice, second), creds(b.cred, cred2), am.BadArgs},
			{strs(b.slice, z), creds(b.cred, cred2), am.BadArgs},
		} {
			for _, method := range []string{"Status", "Describe", "Provision", "Delete"} {
				a := b.alice.call(method, tt.urns, tt.creds, opts(opt("geni_best_effort", effort)))
				if a.code != tt.code || strings.Contains(a.output, second) && tt.urns[0] != xmlrpc.Value(b.slice) {
					t.Errorf("%s of %v, best effort %v: code %d %q, want %d", method, tt.urns, effort, a.code, a.output, tt.code)
				}
			}
		}
	}
	if all, err := b.store.Slivers(); err != nil || len(all) != 3 || all[0].Status != column("allocated") {
		t.Errorf("refused calls left %v, %v", all, err)
	}
}

// TestRedundantActionCreatesNoTask checks that an action succeeds without a new task if the sliver is
// in its final state or on the way there.
func TestRedundantActionCreatesNoTask(t *testing.T) {
	b := newBench(t)
	for state, action := range map[string]string{"configuring": "geni_start", "ready": "geni_start", "updating_users": "geni_start", "notready": "geni_stop", "stopping": "geni_stop"} {
		b.put(in(b.x, state))
		for range 2 {
			b.do(action, false, b.slice).want(t, action+" in "+state, am.Success)
		}
		tasks := 0
		err := b.store.Read(func(v *store.View) error { return v.Tasks(func(am.Task) bool { tasks++; return true }) })
		left, err2 := b.store.Slivers()
		if err != nil || err2 != nil || tasks != 0 || len(left) != 1 || left[0].Generation != b.x.Generation {
			t.Errorf("%s in %s: %d tasks, slivers %v (%v, %v)", action, state, tasks, left, err, err2)
		}
	}
}

// TestCallsOnOneSliceWait checks that simultaneous calls on one slice run one after the other, and
// that none is answered with BUSY.
func TestCallsOnOneSliceWait(t *testing.T) {
	b := newBench(t)
	at := func(what, state string, call func() answer, want map[am.Code]int) {
		t.Helper()
		b.put(in(b.x, state), in(b.y, state))
		got := map[am.Code]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				a := call()
				mu.Lock()
				defer mu.Unlock()
				got[a.code]++
			})
		}
		wg.Wait()
		for code, n := range got {
			if want[code] != n {
				t.Errorf("%s: codes %v, want %v", what, got, want)
				break
			}
		}
	}
	x, y := b.x.URN.String(), b.y.URN.String()
	at("Provision of one", "allocated", func() answer { return b.do("Provision", false, x, y) }, map[am.Code]int{am.Success: 1, am.Unsupported: 15})
	at("geni_start", "notready", func() answer { return b.do("geni_start", false, b.slice) }, map[am.Code]int{am.Success: 16})
	at("geni_restart", "ready", func() answer { return b.do("geni_restart", false, b.slice) }, map[am.Code]int{am.Success: 1, am.Unsupported: 15})
	at("Renew", "ready", func() answer { return b.do("Renew", false, b.slice) }, map[am.Code]int{am.Success: 16})
	at("Delete", "ready", func() answer { return b.do("Delete", false, b.slice) }, map[am.Code]int{am.Success: 1, am.SearchFailed: 15})
	at("Shutdown", "ready", func() answer { return b.do("Shutdown", false, b.slice) }, map[am.Code]int{am.Success: 16})
}
