package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec/step"
)

// expectedStates is what the API, and what clients expect of it, say of each
// method and action in each state. It is written down by hand, so that nothing
// here follows from am.Transitions.
//
// A cell is the state after the call; = where nothing changes, gone where the
// sliver leaves its slice, a code where the call is refused, and two codes
// where it is refused in different ways to a slice URN and to a sliver URN.
// The last four are no calls: a code means that nothing happens.
const expectedStates = `
                            allocated pending notready    configuring ready          stopping updating_users failed
Status                      =         =       =           =           =              =        =              =
Describe                    =         =       =           =           =              =        =              =
Allocate                    =         =       =           =           =              =        =              =
Provision                   pending   12/13   12/13       12/13       12/13          12/13    12/13          12/13
Renew                       =         =       =           =           =              =        =              =
Delete                      gone      gone    gone        gone        gone           gone     gone           gone
Shutdown                    =         =       =           stopping    stopping       =        stopping       =
geni_start                  13        =       configuring =           =              13       =              13
geni_restart                13        13      13          13          configuring    13       13             13
geni_stop                   13        =       =           stopping    stopping       =        13             13
geni_update_users           13        7       7           =           updating_users 7        7              7
geni_updating_users_cancel  13        13      13          13          13             13       ready          13
geni_update_users_cancel    13        13      13          13          13             13       ready          13
patchbay_setup              13        13      =           =           configuring    13       13             configuring
geni_reload                 13        13      13          13          13             13       13             13
reboot                      13        13      13          13          13             13       13             13
(empty)                     13        13      13          13          13             13       13             13
done                        13        notready 13         ready       13             notready ready          13
gave_up                     13        failed  13          failed      13             failed   ready          13
lost                        13        13      failed      13          failed         13       failed         13
lease_over                  gone      gone    gone        gone        gone           gone     gone           gone
change                      =         =       =           =           configuring    13       13             13
`

// column is a state by its name in the table.
func column(name string) am.Status {
	switch name {
	case "allocated":
		return am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}
	case "pending":
		return am.Status{Allocation: am.Provisioned, Operational: am.PendingAllocation}
	}
	return am.Status{Allocation: am.Provisioned, Operational: am.OperationalState("geni_" + name)}
}

// expected is a cell taken apart.
type expected struct {
	row, state    string
	to            am.Status // if it succeeds
	refused       bool
	slice, sliver am.Code
	good          string // a state in which the row succeeds, if there is one
}

func expectations(t testing.TB) []expected {
	t.Helper()
	var out []expected
	lines := strings.Split(strings.TrimSpace(expectedStates), "\n")
	states := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != len(states)+1 {
			t.Fatalf("%d cells in %q", len(f)-1, line)
		}
		good := ""
		start := len(out)
		for i, cell := range f[1:] {
			e := expected{row: f[0], state: states[i], to: column(states[i])}
			switch {
			case cell == "=":
			case cell == "gone":
				e.to = am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}
			case cell[0] >= '0' && cell[0] <= '9':
				e.refused = true
				if n, _ := fmt.Sscanf(cell, "%d/%d", &e.slice, &e.sliver); n == 1 {
					e.sliver = e.slice
				}
			default:
				e.to = column(cell)
			}
			if !e.refused {
				good = states[i]
			}
			out = append(out, e)
		}
		for i := start; i < len(out); i++ {
			out[i].good = good
		}
	}
	return out
}

// bench is a slice whose slivers can be put into any state.
type bench struct {
	*site
	alice       *caller
	slice, cred string
	all         []am.Sliver // as allocated
	x, y        am.Sliver   // the first two
	document    am.Document
	record      am.Slice
}

const missing = "urn:publicid:IDN+example.org+sliver+missing"

func newBench(t testing.TB) *bench {
	b := &bench{site: newSite(t)}
	b.alice = b.user("alice")
	b.slice, b.cred = b.alice.slice("bench", 20*24*time.Hour)
	b.alice.call("Allocate", b.slice, creds(b.cred), request(node("x"), node("y"), node("v"), node("w")), opts()).want(t, "Allocate", am.Success)
	err := b.store.Read(func(v *store.View) (err error) {
		if b.all, err = v.SliversOf(urn.MustParse(b.slice)); err != nil {
			return err
		}
		slices.SortFunc(b.all, func(a, b am.Sliver) int { return a.Ordinal - b.Ordinal })
		b.x, b.y = b.all[0], b.all[1]
		if b.document, _, err = v.Document(b.x.Document); err != nil {
			return err
		}
		b.record, _, err = v.Slice(b.x.Slice)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put makes slivers in these states the only ones, with nothing left to do.
func (b *bench) put(slivers ...am.Sliver) {
	b.t.Helper()
	now, err := b.store.Slivers()
	if err == nil {
		err = b.store.Commit(b.t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			for _, s := range now {
				cs.Remove(store.TaskKey(s.URN))
				if !slices.ContainsFunc(slivers, func(x am.Sliver) bool { return x.URN.Equal(s.URN) }) {
					cs.Remove(store.SliverKey(s.URN))
				}
			}
			for _, s := range slivers {
				cs.PutSliver(s)
			}
			cs.PutSlice(b.record)
			cs.PutDocument(b.document)
			return cs, nil
		})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// in is a sliver in a state, with a failed step if it is provisioned.
func in(s am.Sliver, state string) am.Sliver {
	s.Status = column(state)
	if s.Status.Allocation == am.Provisioned {
		s.Expires = s.Expires.Add(24 * time.Hour)
		s.Desired.Present = true
		s.Setup = []step.Step{{Kind: step.Execute, Shell: "sh", Command: "false"}}
		s.Observed.Services = []am.StepReport{{State: am.StepFailed}}
	}
	return s
}

// status returns the stored status of a sliver; unallocated if there is none.
func (b *bench) status(s am.Sliver) (status am.Status) {
	b.t.Helper()
	status = am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}
	all, err := b.store.Slivers()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, x := range all {
		if x.URN.Equal(s.URN) {
			status = x.Status
		}
	}
	return status
}

// do makes the call of a row.
func (b *bench) do(row string, bestEffort bool, urns ...string) answer {
	o := opts(opt("geni_users", []xmlrpc.Value{user(b.alice.urn.String(), testKey)}))
	if bestEffort {
		o = append(o, opt("geni_best_effort", true))
	}
	cred := creds(b.cred)
	switch row {
	case "Status", "Describe", "Provision", "Delete":
		return b.alice.call(row, strs(urns...), cred, o)
	case "Renew":
		return b.alice.call(row, strs(urns...), cred, FormatTime(b.clock().Add(time.Hour)), o)
	case "Shutdown":
		return b.alice.call(row, urns[0], cred, o)
	case "Allocate":
		return b.alice.call(row, urns[0], cred, request(node("z")), o)
	case "(empty)":
		row = ""
	}
	return b.alice.call("PerformOperationalAction", strs(urns...), cred, row, o)
}

// events are the rows that are no calls.
var events = map[string]am.Event{"done": am.EventDone, "gave_up": am.EventGaveUp, "lost": am.EventLost, "lease_over": am.EventExpire, "change": am.EventChange}

// check tries a cell in all its forms and returns the differences.
func (b *bench) check(e expected) (wrong []string) {
	b.t.Helper()
	form := ""
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s in %s, %s: %s", e.row, e.state, form, fmt.Sprintf(format, args...)))
	}
	if event, ok := events[e.row]; ok {
		form = "by the table"
		to, err := am.Next(column(e.state), event)
		if am.CodeOf(err) != e.sliver || err == nil && to != e.to {
			complain("%v, %v", to, err)
		}
		return wrong
	}
	x, y := b.x.URN.String(), b.y.URN.String()
	was := column(e.state)
	outcome := func(a answer, code am.Code, want am.Status) bool {
		if a.code != code {
			complain("code %d %q, want %d", a.code, a.output, code)
			return false
		}
		if got := b.status(b.x); got != want {
			complain("it is left in %v, want %v", got, want)
			return false
		}
		return true
	}
	// wants checks the state of a sliver in the answer.
	wants := func(a answer, u string, want am.Status, failed bool) {
		for _, s := range a.slivers(b.t) {
			if get(s, "geni_sliver_urn") != u {
				continue
			}
			got := am.Status{Allocation: am.AllocationState(get(s, "geni_allocation_status").(string)), Operational: am.OperationalState(get(s, "geni_operational_status").(string))}
			if got != want || (get(s, "geni_error") != "") != failed {
				complain("%s is in %v, error %q; want %v, an error %v", u, got, get(s, "geni_error"), want, failed)
			}
			return
		}
		complain("%s is not in the answer", u)
	}

	form = "slice URN"
	b.put(in(b.x, e.state))
	a := b.do(e.row, false, b.slice)
	if e.refused {
		outcome(a, e.slice, was)
	} else if outcome(a, am.Success, e.to) && e.row != "Shutdown" {
		if e.row == "Allocate" {
			wants(a, get(a.slivers(b.t)[0], "geni_sliver_urn").(string), column("allocated"), false)
		} else {
			wants(a, x, e.to, false)
		}
	}
	if e.row == "Allocate" || e.row == "Shutdown" { // they take no sliver URNs
		return wrong
	}

	companion := e.good
	if companion == "" {
		companion = "ready"
	}
	form = "sliver URN"
	b.put(in(b.x, e.state), in(b.y, companion))
	a = b.do(e.row, false, x)
	if e.refused {
		outcome(a, e.sliver, was)
	} else if outcome(a, am.Success, e.to) {
		if n := len(a.slivers(b.t)); n != 1 {
			complain("the answer has %d slivers", n)
		}
		wants(a, x, e.to, false)
	}
	if got := b.status(b.y); got != column(companion) {
		complain("another sliver went to %v", got)
	}

	absent := am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}
	if !e.refused {
		form = "with one that is missing, all or nothing"
		b.put(in(b.x, e.state))
		outcome(b.do(e.row, false, x, missing), am.SearchFailed, was)
		form = "with one that is missing, best effort"
		if a = b.do(e.row, true, missing, x); outcome(a, am.Success, e.to) {
			wants(a, x, e.to, false)
			wants(a, missing, absent, true)
		}
		return wrong
	}
	form = "with one that could, all or nothing"
	b.put(in(b.x, e.state), in(b.y, companion))
	outcome(b.do(e.row, false, y, x), e.sliver, was)
	if got := b.status(b.y); got != column(companion) {
		complain("the other went to %v", got)
	}
	form = "alone, best effort"
	outcome(b.do(e.row, true, x), e.sliver, was)
	if e.good == "" {
		return wrong
	}
	form = "with one that could, best effort"
	if a = b.do(e.row, true, x, y, missing); outcome(a, am.Success, was) {
		wants(a, x, was, true)
		wants(a, y, b.status(b.y), false)
		wants(a, missing, absent, true)
		for _, other := range expectations(b.t) {
			if other.row == e.row && other.state == companion && b.status(b.y) != other.to {
				complain("the other is left in %v, want %v", b.status(b.y), other.to)
			}
		}
	}
	return wrong
}

// TestEveryMethodInEveryState tries each cell with a slice URN, with a sliver URN, and with slivers
// of different states, with and without best effort.
func TestEveryMethodInEveryState(t *testing.T) {
	b := newBench(t)
	for _, e := range expectations(t) {
		for _, w := range b.check(e) {
			t.Error(w)
		}
	}
}

// TestExpectedStatesAreComplete checks that the table has every event, every method and every
// advertised state.
func TestExpectedStatesAreComplete(t *testing.T) {
	rows, states := map[string]bool{}, map[string]bool{}
	for _, e := range expectations(t) {
		rows[e.row], states[e.state] = true, true
	}
	for _, table := range [][]am.Transition{am.Transitions, am.ProvisionedTransitions} {
		for _, r := range table {
			if name := strings.ReplaceAll(string(r.Event), " ", "_"); !rows[name] {
				t.Errorf("no row for %s", r.Event)
			}
		}
	}
	for _, s := range append(slices.Clone(am.AdvertisedStates), am.PendingAllocation) {
		if name := strings.TrimPrefix(string(s), "geni_"); name != "pending_allocation" && !states[name] {
			t.Errorf("no column for %s", s)
		}
	}
	for name, m := range methods[Version3] {
		if len(m.args) > 0 && name != "GetVersion" && name != "ListResources" && name != "PerformOperationalAction" && !rows[name] {
			t.Errorf("no row for %s", name)
		}
	}
}

// TestChangedTransitionsAreDetected changes am.Transitions a row at a time and checks that the table
// above detects each change.
func TestChangedTransitionsAreDetected(t *testing.T) {
	b := newBench(t)
	cells := expectations(t)
	notice := func(what string, from am.Status, e am.Event) {
		t.Helper()
		row := strings.ReplaceAll(string(e), " ", "_")
		for _, c := range cells {
			of := column(c.state)
			if c.row == row && (of == from || from.Operational == "" && of.Allocation == from.Allocation || from.Allocation == am.Unallocated) && len(b.check(c)) > 0 {
				return
			}
		}
		t.Errorf("nothing noticed that %s in %v is %s", e, from, what)
	}
	for _, table := range [][]am.Transition{am.Transitions, am.ProvisionedTransitions} {
		for i := range table {
			was := table[i]
			if table[i].To = column("failed"); was.To == table[i].To {
				table[i].To = column("ready")
			}
			notice("changed", was.From, was.Event)
			table[i] = was
			// With another's event the row is gone.
			table[i].Event = "never"
			notice("gone", was.From, was.Event)
			table[i] = was
		}
	}
	rows := am.Transitions
	defer func() { am.Transitions = rows }()
	for _, c := range cells {
		event, ok := events[c.row]
		if !ok {
			if event = am.Event(c.row); c.row == "geni_reload" || c.row == "reboot" || c.row == "(empty)" || c.row == "geni_update_users_cancel" {
				continue
			}
		}
		if c.refused {
			am.Transitions = append(slices.Clone(rows), am.Transition{From: column(c.state), Event: event, To: column("failed")})
			notice("possible", column(c.state), event)
		}
	}
}
