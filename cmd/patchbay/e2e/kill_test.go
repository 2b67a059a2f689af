package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/follow/audit"
	"patchbay/am/store"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
)

// killCount returns how often a server is killed: the value of a variable, or few.
func killCount(t *testing.T, variable string, few int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, and must be a number", variable, text)
	}
	return n
}

// sliceRecord is what the server has acknowledged to one caller about its slice. It
// belongs to the caller's goroutine, and to the test between rounds.
type sliceRecord struct {
	slice string
	cred  []client.Credential
	// slivers are the acknowledged slivers by URN. Those of CreateSliver have no times.
	slivers map[string]client.Sliver
	made    bool // Provision or CreateSliver was acknowledged for all slivers
	ahead   bool // the slivers begin after the test
	linked  bool // a change with the link was acknowledged
	down    bool // Shutdown was acknowledged
	// open is the call without an answer, which may have been done or not.
	open string
	// stuck reports that only Delete is possible, because of a reservation by a call without
	// an answer.
	stuck bool
}

// killTest has callers of both versions at a server that is killed repeatedly.
type killTest struct {
	t        *testing.T
	s        *servedSite
	user     *identity
	books    []*sliceRecord
	rnd      *rand.Rand
	begun    time.Time
	answered atomic.Int64
	acks     map[string]int // by method
	mu       sync.Mutex     // guards acks
}

const (
	twoNodes = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a"/><node client_id="b"/></rspec>`
	// linkedNodes and threeNodes change twoNodes in place.
	linkedNodes = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a"><interface client_id="i"/></node><node client_id="b"><interface client_id="j"/></node><link client_id="l"><interface_ref client_id="i"/><interface_ref client_id="j"/></link></rspec>`
	threeNodes  = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a"/><node client_id="b"/><node client_id="c"/></rspec>`
	// oneTooMany requests more nodes than exist, so nothing is allocated.
	oneTooMany = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a"/><node client_id="b"><sliver_type name="none"/></node></rspec>`
	// userKey is a public key that belongs to nobody.
	userKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f test"
)

func newKillTest(t *testing.T, s *servedSite, f *federation, root *identity, callers int) *killTest {
	t.Helper()
	k := &killTest{t: t, s: s, rnd: rand.New(rand.NewPCG(require.Seed(t), 0)), begun: time.Now().Truncate(time.Second), acks: map[string]int{}}
	k.user = f.issue(f.urn("user", "alice"), false, root)
	f.keyAlg = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"} // fast to create
	for i := range callers {
		x := f.issue(f.urn("slice", fmt.Sprintf("s%d", i)), false, root)
		k.books = append(k.books, &sliceRecord{slice: x.urn, cred: signedCredentials(f.sign(statement{owner: k.user, target: x, privileges: []string{"*"}}, root)), slivers: map[string]client.Sliver{}})
	}
	return k
}

// newV2Client returns a client of API version 2.
func (k *killTest) newV2Client() *client.Client {
	c, err := client.New(client.Config{URL: k.s.url + "/am/2.0", CertFile: k.user.cert, KeyFile: k.user.key, Timeout: time.Minute})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(c.Close)
	return c
}

// runLoad makes calls about all slices at once until the server is killed. It calls
// strike first.
func (k *killTest) runLoad(strike func()) {
	c, old, before := k.s.client(k.user, false), k.newV2Client(), k.answered.Load()
	var callers sync.WaitGroup
	for _, b := range k.books {
		rnd := rand.New(rand.NewPCG(k.rnd.Uint64(), 1))
		callers.Go(func() {
			for k.runStep(c, old, b, rnd) {
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		callers.Wait()
	}()
	strike()
	for end := time.After(30 * time.Second); k.answered.Load() < before+50; { // limit for a busy host
		select {
		case <-time.After(time.Millisecond):
			continue
		case <-ended: // all slices are shut down
		case <-end:
		}
		break
	}
	k.s.cmd.Process.Signal(syscall.SIGKILL)
	<-ended
	k.s.kill()
}

// runStep makes one call, and reports whether it was answered.
func (k *killTest) runStep(c, old *client.Client, b *sliceRecord, rnd *rand.Rand) bool {
	ctx := context.Background()
	pick := func(methods ...string) string { return methods[rnd.IntN(len(methods))] }
	if b.down {
		return false
	}
	switch {
	case len(b.slivers) == 0:
		b.open = pick("Allocate", "Allocate", "CreateSliver", "Ahead", "Ahead")
	case b.ahead:
		b.open = pick("Renew ahead", "Renew ahead", "At start", "Delete", "Status")
	case !b.made:
		b.open = pick("Provision", "Provision", "Provision", "Renew", "Change", "Delete", "Status")
	default:
		b.open = pick("Change", "Change", "Change", "geni_start", "geni_start", "geni_stop", "geni_restart", "Renew", "Renew", "Delete", "DeleteSliver", "Status")
	}
	if b.stuck {
		b.open = "Delete"
	} else if len(b.slivers) > 0 && rnd.IntN(40) == 0 {
		b.open = "Shutdown"
	}
	urns := []string{b.slice}
	texts := []xmlrpc.Value{b.cred[0].Text}
	request := twoNodes
	if rnd.IntN(4) == 0 {
		request = oneTooMany
	}
	change := []string{twoNodes, linkedNodes, linkedNodes, threeNodes}[rnd.IntN(4)]
	users := []client.User{{URN: k.user.urn, Keys: []string{userKey}}}
	hour := func() time.Time { return k.begun.Add(time.Duration(2+rnd.IntN(3)) * time.Hour) }
	var told []client.Sliver
	var r client.Reply
	var err error
	switch b.open {
	case "Ahead":
		var a client.Answer
		start := hour()
		a, r, err = c.Allocate(ctx, b.slice, b.cred, request, client.Options{Start: start, End: start.Add(time.Hour), AtStart: rnd.IntN(2) == 0, Users: users})
		told = a.Slivers
	case "Renew ahead":
		end := hour().Add(time.Hour)
		told, r, err = c.Renew(ctx, urns, b.cred, end, client.Options{End: end})
	case "At start":
		var a client.Answer
		a, r, err = c.Provision(ctx, urns, b.cred, client.Options{AtStart: true, Users: users})
		told = a.Slivers
	case "Allocate":
		var a client.Answer
		a, r, err = c.Allocate(ctx, b.slice, b.cred, request, client.Options{})
		told = a.Slivers
	case "Change":
		var a client.Answer
		a, r, err = c.Allocate(ctx, b.slice, b.cred, change, client.Options{Change: true})
		told = a.Slivers
	case "CreateSliver":
		r, err = old.Call(ctx, b.open, b.slice, texts, request, []xmlrpc.Value{}, xmlrpc.Struct{})
		manifest, _ := r.Value.(string)
		for _, m := range regexp.MustCompile(`sliver_id="([^"]+)"`).FindAllStringSubmatch(manifest, -1) {
			told = append(told, client.Sliver{URN: m[1]})
		}
	case "Provision":
		var a client.Answer
		a, r, err = c.Provision(ctx, urns, b.cred, client.Options{})
		told = a.Slivers
	case "Renew":
		until := time.Now().Add(11*time.Minute + time.Duration(rnd.IntN(60))*time.Minute).UTC().Truncate(time.Second)
		told, r, err = c.Renew(ctx, urns, b.cred, until, client.Options{})
	case "Delete":
		_, r, err = c.Delete(ctx, urns, b.cred, client.Options{})
	case "DeleteSliver":
		r, err = old.Call(ctx, b.open, b.slice, texts, xmlrpc.Struct{})
	case "Status":
		_, r, err = c.Status(ctx, urns, b.cred, client.Options{})
	case "Shutdown":
		_, r, err = c.Shutdown(ctx, b.slice, b.cred, client.Options{})
	default:
		_, r, err = c.PerformOperationalAction(ctx, urns, b.cred, b.open, client.Options{})
	}
	if r.Code == am.Success && err != nil {
		return false // the server died first
	}
	k.answered.Add(1)
	method := b.open
	b.open = ""
	if b.stuck = r.Code == am.Busy; r.Code != am.Success {
		time.Sleep(time.Millisecond)
		return true // refused, so nothing changed
	}
	k.mu.Lock()
	k.acks[method]++
	k.mu.Unlock()
	switch method {
	case "Delete", "DeleteSliver":
		clear(b.slivers)
		b.made, b.linked, b.ahead = false, false, false
	case "Ahead":
		b.ahead = true
	case "Change":
		b.linked = change == linkedNodes
		b.made = b.made && change != threeNodes
	case "Shutdown":
		b.down = true
	case "Provision", "CreateSliver":
		b.made = true
	}
	for _, s := range told {
		b.slivers[s.URN] = s
	}
	return true
}

// compareRecords compares the server's state of each slice with the records, and each
// node with its slivers. Then the records take the server's state.
func (k *killTest) compareRecords(round int) {
	t, c := k.t, k.s.client(k.user, false)
	owners := map[string][]stay{} // by component
	for _, b := range k.books {
		open := b.open
		b.open = ""
		bad := func(format string, args ...any) {
			t.Helper()
			t.Errorf("round %d, slice %s, unanswered %q: "+format, append([]any{round, b.slice, open}, args...)...)
		}
		a, r, err := c.Describe(t.Context(), []string{b.slice}, b.cred, client.Options{})
		if r.Code == am.Forbidden && (b.down || open == "Shutdown") {
			b.down = true
			continue
		}
		if err != nil {
			t.Fatalf("round %d: Describe: %v", round, err)
		}
		if b.down {
			bad("the Shutdown that was acknowledged is lost")
		}
		if n := len(a.Slivers); n != 0 && n != 2 && n != 3 {
			bad("it has %d of 2 or 3 slivers", n)
		}
		if has := strings.Contains(a.RSpec, `<link client_id="l"`); has != b.linked && open != "Change" && open != "Delete" && open != "DeleteSliver" {
			bad("a change was acknowledged, and is lost: it has the link: %v", has)
		}
		b.linked = strings.Contains(a.RSpec, `<link client_id="l"`)
		begins, ends := open == "Allocate" || open == "CreateSliver" || open == "Change" || open == "Ahead", open == "Delete" || open == "DeleteSliver"
		there := map[string]client.Sliver{}
		for _, s := range a.Slivers {
			there[s.URN] = s
			was, acknowledged := b.slivers[s.URN]
			if !acknowledged && !begins {
				bad("%s was deleted, and is there", s.URN)
			}
			if acknowledged && !was.Expires.IsZero() && !slices.Contains([]string{"Renew", "Provision", "Renew ahead", "At start"}, open) &&
				!(s.Expires.Equal(was.Expires) && s.Begins.Equal(was.Begins) && s.Ends.Equal(was.Ends)) {
				bad("its lease is %v, and %v was acknowledged", []time.Time{s.Begins, s.Ends, s.Expires}, []time.Time{was.Begins, was.Ends, was.Expires})
			}
			if b.ahead && (s.Begins.IsZero() || s.Allocation != string(am.Allocated)) {
				bad("%s was reserved for later, and is %s from %v", s.URN, s.Allocation, s.Begins)
			}
			if b.made && open != "Change" && s.Allocation != string(am.Provisioned) {
				bad("it was made, and is %s", s.Allocation)
			}
		}
		for u, was := range b.slivers {
			over := !was.Expires.IsZero() && time.Now().After(was.Expires) // the end of an unanswered Renew
			if _, ok := there[u]; !ok && !ends && !over {
				bad("%s was acknowledged, and is lost", u)
			}
		}
		for _, m := range regexp.MustCompile(`<node [^>]*>`).FindAllString(a.RSpec, -1) {
			where, sliver := regexp.MustCompile(`component_id="([^"]+\+node\+pc[^"]+)"`).FindStringSubmatch(m), regexp.MustCompile(`sliver_id="([^"]+)"`).FindStringSubmatch(m)
			if where == nil || sliver == nil {
				continue
			}
			s := there[sliver[1]]
			x := stay{b.slice, s.Begins, s.Expires}
			if !s.Begins.IsZero() {
				x.until = s.Ends
			}
			for _, o := range owners[where[1]] {
				if x.from.Before(o.until) && o.from.Before(x.until) {
					bad("%s is its own at %+v, and belongs to %+v", where[1], x, o)
				}
			}
			owners[where[1]] = append(owners[where[1]], x)
		}
		b.slivers = there
		b.made, b.ahead = allProvisioned(a.Slivers), isAhead(a.Slivers)
	}
}

// stay is the time in which a slice holds a component.
type stay struct {
	slice       string
	from, until time.Time
}

func isAhead(list []client.Sliver) bool { return len(list) > 0 && time.Now().Before(list[0].Begins) }

func allProvisioned(list []client.Sliver) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s client.Sliver) bool { return s.Allocation != string(am.Provisioned) })
}

// awaitIdle waits until the server has no tasks.
func (k *killTest) awaitIdle() {
	k.t.Helper()
	wait.Until(k.t, "no work left", func() bool {
		resp, err := http.Get(k.s.admin + "/metrics")
		if err != nil {
			k.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return program.Metric(k.t, string(text), "patchbay_tasks") == 0
	})
	http.DefaultClient.CloseIdleConnections()
}

// providerNodes returns the nodes of the site's provider.
func (s *servedSite) providerNodes(name string) map[string]bool {
	s.t.Helper()
	cmd := exec.Command("./"+name+provider.Suffix, "ral_action=get")
	cmd.Dir = filepath.Join(s.dir, "providers")
	cmd.Stdin = strings.NewReader(`{"names": []}`)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	var told struct {
		Resources []struct{ Name, Ensure string }
		Error     any
	}
	if err := json.Unmarshal(out, &told); err != nil || told.Error != nil {
		s.t.Fatalf("get: %v %v", told.Error, err)
	}
	there := map[string]bool{}
	for _, r := range told.Resources {
		if r.Ensure == provider.Present {
			there[r.Name] = true
		}
	}
	return there
}

// checkStore checks a database that is not served: it is valid, and its slivers are the
// provider's nodes.
func (s *servedSite) checkStore(round int, has map[string]bool) {
	s.t.Helper()
	file := filepath.Join(s.dir, "state.db")
	report, err := store.Check(file)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		s.t.Errorf("round %d: the store: %v", round, err)
	}
	st, err := store.Open(file, store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	held := map[string]bool{}
	err = st.Read(func(v *store.View) error {
		return errors.Join(
			v.Slivers(func(x am.Sliver) bool {
				if held[x.URN.Name] = x.Status.Allocation == am.Provisioned; held[x.URN.Name] != has[x.URN.Name] {
					s.t.Errorf("round %d: sliver %s is %v, and its provider has it: %v", round, x.URN.Name, x.Status, has[x.URN.Name])
				}
				return true
			}),
			v.Tasks(func(x am.Task) bool { s.t.Errorf("round %d: %+v is left", round, x); return true }))
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for name := range has {
		if !held[name] {
			s.t.Errorf("round %d: node %s has no sliver", round, name)
		}
	}
}

// checkAudit checks that the audit of a site that has ended has each line of each change once, in order.
func (s *servedSite) checkAudit() {
	s.t.Helper()
	last, recorded := "", map[store.Rev]bool{}
	for text := range strings.Lines(program.ReadFile(s.t, filepath.Join(s.dir, "audit.log"))) {
		var x audit.Line
		if err := json.Unmarshal([]byte(text), &x); err != nil || x.Event == "gap" {
			s.t.Errorf("%s: %v", text, err)
		}
		if x.Next == "" || (x.Event == "open" || x.Event == "told") && x.Next >= last { // these repeat the position
			continue
		}
		if x.Next <= last {
			s.t.Errorf("the position of %s is not after %s", text, last)
		}
		last = x.Next
		rev, _ := store.JournalRev(x.Next)
		if x.Next == store.Position(rev, 0) {
			rev--
		}
		recorded[rev] = true
	}
	st, err := store.Open(filepath.Join(s.dir, "state.db"), store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	err = st.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if rev, ok := store.JournalRev(e.ID); !ok || !recorded[rev] {
				s.t.Errorf("the audit lacks %s %s", e.ID, e.Event)
			}
			return true
		})
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// thaw lifts each shutdown as an operator does.
func (k *killTest) thaw() {
	for _, b := range k.books {
		if !b.down {
			continue
		}
		if out, errs, status := k.s.patchbay("thaw", b.slice, "--config", filepath.Join(k.s.dir, "patchbay.yaml")); status != 0 {
			k.t.Fatalf("thaw: %s%s", out, errs)
		}
		b.down = false
	}
	// Existing slivers belong to their users again.
	c := k.s.client(k.user, false)
	for _, b := range k.books {
		a, _, err := c.Describe(k.t.Context(), []string{b.slice}, b.cred, client.Options{})
		if err != nil {
			k.t.Fatal(err)
		}
		clear(b.slivers)
		b.made, b.ahead = allProvisioned(a.Slivers), isAhead(a.Slivers)
		for _, s := range a.Slivers {
			b.slivers[s.URN] = s
		}
	}
}

// release deletes all slivers, and waits until their nodes are free.
func (k *killTest) release() {
	k.t.Helper()
	c := k.s.client(k.user, false)
	for _, b := range k.books {
		if _, r, err := c.Delete(k.t.Context(), []string{b.slice}, b.cred, client.Options{}); r.Code != am.SearchFailed && err != nil {
			k.t.Errorf("Delete: %v", err)
		}
		clear(b.slivers)
		b.made, b.linked, b.ahead = false, false, false
	}
	k.awaitIdle()
}

// TestKilledUnderLoad kills the server under load, PATCHBAY_KILLS times or 2, and each
// time once more when it is idle. Callers of both API versions allocate, reserve ahead, provision,
// start, stop, renew, delete and shut down slivers, on fewer nodes than they want.
// Acknowledged changes must survive, no node may have two owners at a time, the database must be
// valid, and the provider must have exactly the nodes of the slivers.
func TestKilledUnderLoad(t *testing.T) {
	rounds := killCount(t, "PATCHBAY_KILLS", 2)
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	s := newServedSite(t, "testbed.example.org", f, root)
	s.appendSettings("timing: {make: 30ms, start: 20ms, stop: 20ms, restart: 20ms, users: 20ms, remove: 30ms}\n")
	k := newKillTest(t, s, f, root, 14)
	for round := range rounds {
		s.start()
		k.runLoad(func() { time.Sleep(50*time.Millisecond + time.Duration(k.rnd.IntN(300))*time.Millisecond) })
		s.start()
		k.compareRecords(round)
		k.awaitIdle()
		k.compareRecords(round)
		s.kill()
		s.checkStore(round, s.providerNodes("simulated"))
		if t.Failed() {
			t.FailNow()
		}
		s.start()
		k.compareRecords(round)
		k.thaw()
		if round%4 == 3 || round == rounds-1 {
			k.release()
		}
		s.stop()
	}
	if has := s.providerNodes("simulated"); len(has) > 0 {
		t.Errorf("in the end the provider has %v", has)
	}
	s.checkStore(rounds, nil)
	s.checkAudit()
	t.Logf("killed %d times under load and as often at rest in %v: %d calls answered, of them acknowledged %v", rounds, time.Since(k.begun).Round(time.Second), k.answered.Load(), k.acks)
	for _, method := range []string{"Allocate", "CreateSliver", "Provision", "Renew", "Delete", "Change", "Ahead", "Renew ahead", "At start"} {
		if k.acks[method] == 0 {
			t.Errorf("no %s was acknowledged: the test proves nothing of it", method)
		}
	}
}
