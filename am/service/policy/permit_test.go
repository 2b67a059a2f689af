package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// holding returns n slivers of a user in a slice.
func holding(user, slice urn.URN, n int, cores int64) []am.Sliver {
	all := make([]am.Sliver, n)
	for i := range all {
		all[i] = am.Sliver{
			URN:   urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(user.Name, slice.Key(), i)},
			Slice: slice, Creator: user, Amount: am.Amount{Cores: cores}, Status: am.Status{Allocation: am.Allocated},
		}
	}
	return all
}

// heldBy returns what users and slices hold of these slivers.
func heldBy(slivers ...am.Sliver) func(user, slice urn.URN) (*Timeline, error) {
	return func(user, slice urn.URN) (*Timeline, error) {
		now := time.Now()
		return calendarOf(slivers...).Timeline(user, slice, now, time.Time{}, now)
	}
}

func student(name string) urn.URN {
	return urn.URN{Authority: "example.org:course-net", Type: urn.User, Name: name}
}

func TestTheFirstRuleThatFitsDecides(t *testing.T) {
	r := load(t, strings.Replace(testPolicy, "the other site.\n", "the other site.\n    says: Sorry.\n", 1), "urn:publicid:IDN+example.org:course-net+user+ANN\n")
	net, other := sliceURN("course-net", "s"), sliceURN("other", "s")
	for _, tt := range []struct {
		rule        string
		user, slice urn.URN
		want        string // of Begin
	}{
		{"who has accepted the terms", student("alice"), net, ""},
		{"who has not", student("bob"), net, `[T&C-APPROVAL-MISSING] rule "students" of this site requires urn:publicid:IDN+example.org:course-net+user+bob to accept its terms of use first. Ask your teacher. Accept them here: `},
		{"in another project", student("alice"), other, "urn:publicid:IDN+example.org:course-net+user+alice matches no rule of this site in project example.org:other, so nothing"},
		{"of another authority", userURN("alice"), net, "urn:publicid:IDN+example.org+user+alice matches no rule of this site"},
		{"in no project that is known", userURN("alice"), urn.URN{}, "urn:publicid:IDN+example.org+user+alice matches no rule of this site, so nothing is available to them; ask this site's operators for access"},
		{"who is refused", urn.MustParse("urn:publicid:IDN+example.net:a+user+eve"), net, `rule "closed" of this site refuses this: You are to use the other site. Sorry.`},
		{"who only looks like that", urn.MustParse("urn:publicid:IDN+example.net.evil+user+eve"), net, "urn:publicid:IDN+example.net.evil+user+eve matches no rule of this site"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := New(r).For(tt.user, tt.slice).CheckUser()
			if tt.want == "" && err == nil {
				return
			}
			if am.CodeOf(err) != am.Refused || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v (%d), want %q", err, am.CodeOf(err), tt.want)
			}
		})
	}
	if err := New(r).For(student("bob"), net).CheckUser(); !strings.HasSuffix(err.Error(), " https://testbed.example.org/terms") {
		t.Errorf("the address is not the last word: %v", err)
	}
	for what, p := range map[string]*Policy{"no policy": nil, "no rules": New(nil)} {
		if p.For(student("bob"), net) != nil {
			t.Errorf("%s permits not everything", what)
		}
	}
}

func TestAmountsCountWhatIsHeld(t *testing.T) {
	alice, bob := student("alice"), student("bob")
	a, b := sliceURN("course-net", "a"), sliceURN("course-net", "b")
	p := New(load(t, `rules: [{name: few, nodes: {user: 6, slice: 5, project: 8}, cores: {user: 10}, says: Sorry.}]`, ""))
	held := heldBy(append(holding(alice, a, 4, 2), holding(bob, b, 2, 1)...)...)
	for _, tt := range []struct {
		rule  string
		user  urn.URN
		slice urn.URN
		nodes int64
		cores int64
		want  string
	}{
		{"up to the limit of the slice", alice, a, 1, 0, ""},
		{"beyond that of the slice", alice, a, 2, 0, `rule "few" of this site allows at most 5 nodes for slice a at one time; 2 more, with 4 already held, are too many: request at most 1, or release some first. Sorry.`},
		{"up to that of the user and the project", alice, b, 2, 0, ""},
		{"beyond that of the user, in another slice", alice, b, 3, 0, "at most 6 nodes for user alice at one time; 3 more, with 4 already held"},
		{"beyond that of the project", bob, sliceURN("Course-Net", "c"), 3, 0, "at most 8 nodes for project example.org:Course-Net at one time; 3 more, with 6 already held"},
		{"who holds nothing in another project", bob, sliceURN("x", "c"), 4, 0, ""},
		{"up to the cores", alice, b, 1, 2, ""},
		{"beyond the cores", alice, b, 1, 3, "at most 10 cores for user alice at one time; 3 more, with 8 already held"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := p.For(tt.user, tt.slice)
			err := x.Within(Amount{Nodes: tt.nodes, Cores: tt.cores}, held)
			if tt.want == "" && err == nil {
				return
			}
			if am.CodeOf(err) != am.Refused || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	none := New(load(t, `rules: [{name: none, nodes: {slice: 0}}]`, ""))
	if err := none.For(alice, a).Within(Amount{Nodes: 1}, held); err == nil || !strings.Contains(err.Error(), "it allows none") {
		t.Errorf("a limit of nothing: %v", err)
	} else if !strings.Contains(err.Error(), "; operators set the limit in policy.yaml") {
		t.Errorf("a rule without a hint of its own: %v", err)
	}
}

func TestWithinReadsHoldingsOnlyForLimits(t *testing.T) {
	damaged := errors.New("damaged")
	held := func(urn.URN, urn.URN) (*Timeline, error) { return nil, damaged }
	for rules, want := range map[string]error{"": nil, ", nodes: {user: 6}": damaged} {
		p := New(load(t, "rules: [{name: few"+rules+"}]", ""))
		if err := p.For(student("alice"), sliceURN("x", "y")).Within(Amount{Nodes: 1}, held); err != want {
			t.Errorf("few%s: got %v, want %v", rules, err, want)
		}
	}
}

func TestDiskIsCountedInItsSizes(t *testing.T) {
	alice, a := student("alice"), sliceURN("course-net", "a")
	r := load(t, `rules: [{name: room, disk: {user: 20G}}]`, "")
	p := New(r)
	held := heldBy(am.Sliver{URN: a, Slice: a, Creator: alice, Amount: am.Amount{Disk: 12 << 10}, Status: am.Status{Allocation: am.Allocated}})
	if err := p.For(alice, a).Within(Amount{Disk: 8 << 10}, held); err != nil {
		t.Errorf("up to the limit: %v", err)
	}
	if err := p.For(student("bob"), a).Within(Amount{Disk: 20 << 10}, held); err != nil {
		t.Errorf("another user: %v", err)
	}
	const want = "at most 20G of disk for user alice at one time; 9217M more, with 12G already held, are too many: request at most 8G"
	if err := p.For(alice, a).Within(Amount{Disk: 9<<10 + 1}, held); am.CodeOf(err) != am.Refused || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if text := strings.Join(r.Sentences(), "\n"); !strings.Contains(text, "at most 20G of disk a user") {
		t.Errorf("explained as %q", text)
	}
	if text := r.Full(alice, a, Held{User: Amount{Nodes: 1, Disk: 20 << 10}}); !strings.Contains(text, "20G of disk") {
		t.Errorf("at the limit the text is %q", text)
	}
}

func TestLeasesByRule(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		rule, lease string
		age         time.Duration
		first       time.Duration // that Provision gives of 10d
		latest      time.Duration // of 30d
		by          string
	}{
		{"no limits", "{}", time.Hour, 240 * time.Hour, 720 * time.Hour, "the site"},
		{"the first", "{first: 2h}", time.Hour, 2 * time.Hour, 720 * time.Hour, "the site"},
		{"a renewal", "{renew: 1d}", time.Hour, 240 * time.Hour, 24 * time.Hour, "limits renewals to 1d from now"},
		{"in all", "{longest: 3d}", 24 * time.Hour, 48 * time.Hour, 48 * time.Hour, "limits the life of slivers to 3d in all"},
		{"all three", "{first: 2h, renew: 1d, longest: 3d}", time.Hour, 2 * time.Hour, 24 * time.Hour, "limits renewals"},
		{"near the end", "{first: 2h, renew: 1d, longest: 3d}", 71 * time.Hour, time.Hour, time.Hour, "in all"},
		{"past it", "{longest: 1h}", 2 * time.Hour, -time.Hour, -time.Hour, "in all"},
		{"longer than the site's", "{first: 20d, renew: 60d}", 0, 240 * time.Hour, 720 * time.Hour, "the site"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p := New(load(t, "rules: [{name: x, says: Sorry., lease: "+tt.lease+"}]", "")).For(student("alice"), sliceURN("x", "y"))
			created := now.Add(-tt.age)
			if got := p.First(now, created, now.Add(240*time.Hour)).Sub(now); got != tt.first {
				t.Errorf("the first lease is %s, want %s", got, tt.first)
			}
			at, by := p.Latest(now, created, now.Add(720*time.Hour), "the site")
			if at.Sub(now) != tt.latest || !strings.Contains(by, tt.by) || by != "the site" && !strings.HasSuffix(by, ". Sorry.") {
				t.Errorf("renewed to at most %s by %s, want %s by %s", at.Sub(now), by, tt.latest, tt.by)
			}
		})
	}
}

func TestCheckLifeRefusesOldSlivers(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 1e8, time.UTC)
	for _, tt := range []struct {
		rule, lease string
		age         time.Duration
		over        bool
	}{
		{"no limit", "{}", 1000 * time.Hour, false},
		{"a limit of the first lease alone", "{first: 1h}", 1000 * time.Hour, false},
		{"young", "{longest: 1h}", time.Hour - time.Second, false},
		{"within the current second", "{longest: 1h}", time.Hour - time.Second/2, true},
		{"old", "{longest: 1h}", 2 * time.Hour, true},
	} {
		p := New(load(t, "rules: [{name: x, lease: "+tt.lease+"}]", "")).For(student("alice"), sliceURN("x", "y"))
		err := p.CheckLife(now, &am.Sliver{Created: now.Add(-tt.age)})
		if (err != nil) != tt.over || tt.over && (am.CodeOf(err) != am.Refused || !strings.Contains(err.Error(), "allows no sliver to live longer than 1h")) {
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
	if err := (*Permit)(nil).CheckLife(now, &am.Sliver{}); err != nil {
		t.Errorf("no permit: %v", err)
	}
}

func TestExplainNamesTheRule(t *testing.T) {
	r := load(t, testPolicy, "")
	for _, tt := range []struct {
		user          urn.URN
		rule, refused string
		may           int
	}{
		{student("alice"), "students", "[T&C-APPROVAL-MISSING]", 12},
		{urn.MustParse("urn:publicid:IDN+example.net+user+a"), "closed", "refuses this", 0},
		{userURN("alice"), "", "matches no rule of this site", 0},
	} {
		e := r.Explain(tt.user, sliceURN("course-net", "s"))
		if e.Rule != tt.rule || !strings.Contains(e.Refused, tt.refused) || len(e.May) != tt.may {
			t.Errorf("%s: %+v", tt.user, e)
		}
	}
	if e := (*Rules)(nil).Explain(userURN("alice"), urn.URN{}); e.Refused != "" || len(e.May) != 1 {
		t.Errorf("no rules: %+v", e)
	}
}

func TestFullReportsReachedLimits(t *testing.T) {
	r := load(t, testPolicy, "")
	slice := sliceURN("course-net", "s")
	for _, tt := range []struct {
		rule  string
		user  urn.URN
		slice urn.URN
		held  Held
		want  string
	}{
		{"room is left", student("alice"), slice, Held{User: Amount{Nodes: 9, Cores: 19}, Slice: Amount{Nodes: 4}, Project: Amount{Nodes: 39}}, ""},
		{"the user is full", student("alice"), slice, Held{User: Amount{Nodes: 10}}, "at most 10 nodes for user alice at one time; 1 more, with 10 already held, are too many: release some first. Ask your teacher."},
		{"the slice is full", student("alice"), slice, Held{Slice: Amount{Nodes: 5}}, "at most 5 nodes for slice s"},
		{"the project is full", student("alice"), slice, Held{Project: Amount{Nodes: 41}}, "at most 40 nodes for project"},
		{"no core is left", student("alice"), slice, Held{User: Amount{Nodes: 1, Cores: 20}}, "at most 20 cores for user alice"},
		{"any slice", student("alice"), urn.URN{}, Held{User: Amount{Nodes: 99}, Slice: Amount{Nodes: 99}}, ""}, // the rule is for one project alone
		{"whom the rule refuses anyway", urn.MustParse("urn:publicid:IDN+example.net+user+a"), slice, Held{User: Amount{Nodes: 99}}, ""},
	} {
		if got := r.Full(tt.user, tt.slice, tt.held); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.want)
		}
	}
	if got := (*Rules)(nil).Full(student("alice"), slice, Held{}); got != "" {
		t.Errorf("no rules: %q", got)
	}
}

// BenchmarkAdmit measures a decision by the last rule of a policy.
func BenchmarkAdmit(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d rules", n), func(b *testing.B) {
			var text strings.Builder
			text.WriteString("rules:\n")
			for i := range n {
				fmt.Fprintf(&text, "  - {name: r%d, who: \"example.org:course-%d+user+*\", nodes: {user: 10, slice: 5, project: 40}, cores: {user: 20}, sliver_types: [container], components: pc1..pc4, lease: {first: 2h}}\n", i, i)
			}
			p := New(load(b, text.String(), ""))
			user, slice := urn.URN{Authority: fmt.Sprint("example.org:course-", n-1), Type: urn.User, Name: "alice"}, sliceURN("x", "y")
			held := heldBy(holding(user, slice, 4, 2)...)
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				x := p.For(user, slice)
				if x == nil || x.CheckUser() != nil || x.Within(Amount{Nodes: 1, Cores: 1}, held) != nil {
					b.Fatal("not admitted by the rule")
				}
				x.Components()
				x.SliverTypes()
				x.First(now, now, now.Add(time.Hour))
			}
		})
	}
}
