package api

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service/policy"
	"patchbay/inventory"
)

// rules returns the policy of the setting.
func (o setting) rules(t testing.TB, dir string, inv *inventory.Inventory) *policy.Policy {
	t.Helper()
	if o.policy == "" {
		return policy.New(nil)
	}
	var site policy.Site
	for _, c := range inv.Components {
		site.Components = append(site.Components, c.Name)
	}
	for _, x := range inv.SliverTypes {
		site.SliverTypes = append(site.SliverTypes, x.Name)
	}
	rules, err := policy.Parse([]byte(o.policy), filepath.Join(dir, "policy.yaml"), site)
	if err != nil {
		t.Fatal(err)
	}
	return policy.New(rules)
}

func vm(id string) string {
	return fmt.Sprintf(`<node client_id="%s"><sliver_type name="vm"/></node>`, id)
}

func on(component, id string) string {
	return fmt.Sprintf(`<node client_id="%s" component_id="urn:publicid:IDN+example.org+node+%s" exclusive="true"><sliver_type name="raw-pc"/></node>`, id, component)
}

func raw(id string) string {
	return fmt.Sprintf(`<node client_id="%s" exclusive="true"><sliver_type name="raw-pc"/></node>`, id)
}

// TestPolicyRefusesRequests checks that Allocate and CreateSliver follow the rules about users, components
// and amounts, and report the rule.
func TestPolicyRefusesRequests(t *testing.T) {
	for _, tt := range []struct {
		rule, policy string
		nodes        []string
		want         string // of the output; "" is success
	}{
		{"no rule fits, so none", `{rules: [{name: r, who: "example.org+user+alice"}], otherwise: refuse}`, []string{raw("a")}, "urn:publicid:IDN+example.org+user+bob matches no rule of this site"},
		{"component", `rules: [{name: r, components: pc2..pc4}]`, []string{on("pc1", "a")}, `node "a": pc1 is not available: rule "r" of this site allows only pc2..pc4`},
		{"the right component", `rules: [{name: r, components: pc2..pc4}]`, []string{on("pc2", "a")}, ""},
		{"too many", `rules: [{name: r, nodes: {user: 1}}]`, []string{raw("a"), vm("b")}, `rule "r" of this site allows at most 1 node for user bob at one time; 2 more, with 0 already held, are too many: request at most 1`},
		{"too much disk", `rules: [{name: r, disk: {user: 1M}}]`, []string{raw("a"), vm("b")}, `rule "r" of this site allows at most 1M of disk for user bob at one time; `},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := setting{policy: tt.policy}.site(t)
			for method, ask := range map[string]func(owned) answer{
				"Allocate":     func(x owned) answer { return x.allocate(request(tt.nodes...)) },
				"CreateSliver": func(x owned) answer { return x.create(request(tt.nodes...)) },
			} {
				x := s.user("bob").own("p", time.Hour)
				a := ask(x)
				if tt.want == "" {
					a.want(t, method, am.Success)
					x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
					s.settle()
					continue
				}
				a.want(t, method, am.Refused)
				if !strings.Contains(a.output, tt.want) {
					t.Errorf("%s: %q, want %q", method, a.output, tt.want)
				}
			}
			held, err := s.store.Slivers()
			if err != nil || len(held) > 0 {
				t.Errorf("%d slivers are left (%v)", len(held), err)
			}
		})
	}
}

// TestPolicyCountsForTheCreator has a colleague use the slice with their own credential. The limit
// counts for the user who reserved a node, and deleting makes room.
func TestPolicyCountsForTheCreator(t *testing.T) {
	s := setting{policy: `rules: [{name: few, nodes: {user: 2, slice: 3}}]`}.site(t)
	x, y := s.user("alice").own("count", time.Hour), s.user("bob").own("count", time.Hour)
	x.allocate(request(raw("a"), raw("b"))).want(t, "two of alice", am.Success)
	x.allocate(request(raw("c"))).want(t, "a third", am.Refused)
	y.allocate(request(raw("c"))).want(t, "one of bob", am.Success)
	if a := y.allocate(request(raw("d"))).want(t, "a fourth in the slice", am.Refused); !strings.Contains(a.output, "at most 3 nodes for slice count") {
		t.Error(a.output)
	}
	x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete", am.Success)
	x.allocate(request(raw("e"), raw("f"))).want(t, "after Delete, before it is clean", am.Success)
}

// TestPolicyRace has callers reserve the limit of one user at the same time. They never hold more,
// and in the end they hold all of it.
func TestPolicyRace(t *testing.T) {
	const most = 7
	s := setting{policy: fmt.Sprintf(`rules: [{name: few, nodes: {user: %d}}]`, most)}.site(t)
	alice := s.user("alice")
	for round := range 4 {
		var mu sync.Mutex
		var won []owned
		codes := map[am.Code]int{}
		var wg sync.WaitGroup
		for i := range 16 {
			x := alice.own(fmt.Sprintf("race%d", i), time.Hour)
			wg.Go(func() {
				a := x.allocate(request(vm("a")))
				mu.Lock()
				defer mu.Unlock()
				if codes[a.code]++; a.code == am.Success {
					won = append(won, x)
				}
			})
		}
		wg.Wait()
		if codes[am.Success] != most || codes[am.Refused] != 16-most {
			t.Fatalf("round %d: %v, want %d that succeed", round, codes, most)
		}
		for _, x := range won {
			x.call("Delete", strs(x.slice), creds(x.cred), opts()).want(t, "Delete", am.Success)
		}
		s.settle()
	}
}

func TestPolicyLimitsLeases(t *testing.T) {
	const day = 24 * time.Hour
	s := setting{policy: `rules: [{name: short, lease: {first: 2h, renew: 1d, longest: 3d}, says: Sorry.}]`}.site(t)
	x := s.user("alice").own("leases", 20*day)
	now := s.clock()
	at := func(d time.Duration) string { return FormatTime(now.Add(d)) }
	ends := func(a answer, what string, want time.Duration) {
		t.Helper()
		a.want(t, what, am.Success)
		for _, v := range a.slivers(t) {
			if got := get(v, "geni_expires"); got != at(want) {
				t.Errorf("%s: the lease ends at %v, want %s", what, got, at(want))
			}
		}
	}
	renew := func(d time.Duration, o ...xmlrpc.Member) answer {
		return x.call("Renew", strs(x.slice), creds(x.cred), at(d), opts(o...))
	}
	ends(x.allocate(request(raw("a"))), "Allocate", 10*time.Minute)
	ends(x.call("Provision", strs(x.slice), creds(x.cred), opts(opt("geni_end_time", at(10*day)))), "Provision with a wish", 2*time.Hour)
	s.settle()
	ends(renew(day), "up to the window", day)
	a := renew(day+time.Second).want(t, "beyond the window", am.Refused)
	if a.detail != int(am.OutOfRange) || !strings.Contains(a.output, "the latest time is "+at(day)+`, by rule "short" of this site, which limits renewals to 1d from now. Sorry.`) {
		t.Errorf("%d %s", a.detail, a.output)
	}
	ends(renew(time.Hour), "shorter", time.Hour)
	ends(renew(2*day, opt("geni_extend_alap", true)), "as long as possible", day)
	s.pass(20 * time.Hour)
	ends(renew(40*time.Hour), "a later window", 40*time.Hour)
	s.pass(18 * time.Hour)
	ends(renew(61*time.Hour), "still within", 61*time.Hour)
	s.pass(20 * time.Hour) // 58 hours old
	a = renew(3*day+time.Hour).want(t, "beyond the longest", am.Refused)
	if a.detail != int(am.OutOfRange) || !strings.Contains(a.output, "the latest time is "+at(3*day)+`, by rule "short" of this site, which limits the life of slivers to 3d in all`) {
		t.Errorf("%d %s", a.detail, a.output)
	}
	ends(renew(4*day, opt("geni_extend_alap", true)), "as long as possible", 3*day)

	y := s.user("bob").own("made", 20*day)
	y.create(request(vm("a"))).want(t, "CreateSliver", am.Success)
	text := get(y.v2("SliverStatus").want(t, "SliverStatus", am.Success).value, "pg_expires")
	if want := FormatTime(s.clock().Add(2 * time.Hour)); text != want {
		t.Errorf("CreateSliver gives a lease to %v, want %s", text, want)
	}
}
