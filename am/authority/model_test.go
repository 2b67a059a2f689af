package authority

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/require"
	"patchbay/credentials"
)

// modelSlice is the expected state of a slice.
type modelSlice struct {
	expires time.Time
	roles   map[string]Role
	// accepted has the members who have created the slice or fetched its credential.
	accepted map[string]bool
}

// isLed reports whether a LEAD has accepted the slice.
func (s *modelSlice) isLed(roles map[string]Role) bool {
	for who, role := range roles {
		if role == Lead && s.accepted[who] {
			return true
		}
	}
	return false
}

// model repeats the rules of slices with plain maps.
type model struct {
	now    time.Time
	slices map[string]*modelSlice
}

func (m *model) live(name string) *modelSlice {
	if s := m.slices[name]; s != nil && m.now.Before(s.expires) {
		return s
	}
	return nil
}

func (m *model) create(who, name string) Code {
	if m.live(name) != nil {
		return Duplicate
	}
	m.slices[name] = &modelSlice{m.now.Add(FirstLease), map[string]Role{who: Lead}, map[string]bool{who: true}}
	return None
}

// reach returns the code of a call about a slice that needs one of the roles.
func (m *model) reach(who, name string, roles ...Role) Code {
	s := m.slices[name]
	switch {
	case s == nil:
		return Argument
	case !slices.Contains(roles, s.roles[who]):
		return Authorization
	case m.live(name) == nil:
		return Argument
	}
	return None
}

func (m *model) renew(who, name string, expires time.Time) Code {
	if c := m.reach(who, name, Lead, Admin, PlainMember); c != None {
		return c
	}
	s := m.slices[name]
	if expires.Before(s.expires) || expires.After(m.now.Add(LongestLease)) || !expires.After(m.now) {
		return Argument
	}
	s.expires = expires
	return None
}

func (m *model) setRole(who, name, member string, role Role) Code {
	roles := []Role{Lead, Admin}
	if role == "" && who == member {
		roles = Roles
	}
	if c := m.reach(who, name, roles...); c != None {
		return c
	}
	s := m.slices[name]
	was, isMember := s.roles[member]
	if (role == Lead || was == Lead) && s.roles[who] != Lead {
		return Authorization
	}
	if role == "" && !isMember {
		return Argument
	}
	next := maps.Clone(s.roles)
	if next[member] = role; role == "" {
		delete(next, member)
	}
	if !slices.Contains(slices.Collect(maps.Values(next)), Lead) || s.isLed(s.roles) && !s.isLed(next) {
		return Argument
	}
	if s.roles = next; role == "" {
		delete(s.accepted, member)
	}
	return None
}

// TestModel makes random calls of three members, and compares each answer, and all slices at the
// end, with the model. Some steps open the authority again.
func TestModel(t *testing.T) {
	steps := require.Rounds(600, 1500)
	if testing.Short() {
		steps = 300
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 1)), steps) })
	}
}

func runModel(t *testing.T, r *rand.Rand, steps int) {
	f := newFixture(t)
	m := &model{today, map[string]*modelSlice{}}
	users := []string{"alice", "bob", "carol"}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	for step := range steps {
		who, name, member := pick(users), fmt.Sprint("s", r.IntN(3)), pick(users)
		var got answer
		var want Code
		what := ""
		switch n := r.IntN(20); {
		case n < 3:
			what, want = "create", m.create(who, name)
			got = create1(f, who, "SLICE", text("SLICE_NAME", name))
		case n < 6:
			expires := m.now.Add(time.Duration(r.IntN(100*24)) * time.Hour)
			what, want = "renew until "+expires.String(), m.renew(who, name, expires)
			got = renew(f, who, name, expires)
		case n < 13:
			what, want, got = changeRole(f, m, who, name, member, append(Roles, "")[r.IntN(5)])
		case n < 17:
			what, want = "credential", m.reach(who, name, Roles...)
			if got = credentialFor(f, who, name); got.code == None && want == None {
				m.slices[name].accepted[who] = true
				checkCredential(t, f, got, who, name, m.slices[name])
			}
		case n < 18:
			f.open()
			continue
		default:
			m.now = m.now.Add(time.Duration(r.IntN(72)) * time.Hour)
			f.now = m.now
			continue
		}
		if got.code != want {
			t.Fatalf("step %d: %s of %s by %s: %d %s, want %d", step, what, name, who, got.code, got.output, want)
		}
	}
	for name, s := range m.slices {
		groups, err := f.Slices(m.now)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.URN.Name == name })
		if (i >= 0) != (m.live(name) != nil) {
			t.Errorf("%s is listed: %v", name, i >= 0)
			continue
		}
		if i < 0 {
			continue
		}
		roles := map[string]Role{}
		for _, x := range groups[i].Members {
			roles[x.Member.Name] = x.Role
		}
		if !maps.Equal(roles, s.roles) || !groups[i].Expires.Equal(s.expires) {
			t.Errorf("%s has %v until %v, want %v until %v", name, roles, groups[i].Expires, s.roles, s.expires)
		}
	}
}

// changeRole uses members_to_add for a new member, and members_to_change for others.
func changeRole(f *fixture, m *model, who, name, member string, role Role) (what string, want Code, got answer) {
	kind := "members_to_add"
	if s := m.slices[name]; s != nil && s.roles[member] != "" {
		kind = "members_to_change"
	}
	v := xmlrpc.Value(xmlrpc.Struct{text("SLICE_MEMBER", userURN(member)), text("SLICE_ROLE", string(role))})
	if role == "" {
		kind, v = "members_to_remove", userURN(member)
	}
	want = m.setRole(who, name, member, role)
	return fmt.Sprintf("%s %s as %q", kind, member, role), want, modify(f, who, name, change(kind, v))
}

// checkCredential verifies an issued credential as an aggregate does.
func checkCredential(t *testing.T, f *fixture, a answer, who, name string, s *modelSlice) {
	t.Helper()
	doc, _ := a.value.([]xmlrpc.Value)[0].(xmlrpc.Struct).Get("geni_value")
	p := []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: doc.(string)}}
	z := f.serviceConfig().Identify
	caller := z.Identify(f.chain(who), f.now)
	g, err := z.Authorize(caller, p, "", credentials.RightStatus, f.now)
	if err != nil {
		t.Fatal(err)
	}
	for other := range 3 {
		u := fmt.Sprint("s", other)
		until, err := g.Over(mustURN(sliceURN(u)))
		if (err == nil) != (u == name) {
			t.Fatalf("the credential for %s gives a right over %s: %v", name, u, err)
		}
		if err == nil && !until.Equal(s.expires.Truncate(time.Second)) {
			t.Fatalf("the credential lasts until %v, the slice until %v", until, s.expires)
		}
	}
	if _, err := z.Authorize(caller, p, "", credentials.RightShutdown, f.now); (err == nil) != (s.roles[who] == Lead || s.roles[who] == Admin) {
		t.Fatalf("%s may shut down: %v", s.roles[who], err)
	}
}

// killedDir makes the test program a writer that TestKilledWriter kills.
const killedDir = "PATCHBAY_TEST_AUTHORITY_DIR"

func writeUntilKilled(dir string) {
	a, err := Open(dir, dir+"/example.org")
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		name := fmt.Sprint("k", i)
		if _, err := a.Slice(name, "alice", today.Add(time.Hour), today); err != nil {
			panic(err)
		}
		fmt.Println(name)
	}
}

// TestKilledWriter kills a process after each of its first commits. All acknowledged slices must
// exist, with their certificates, and at most one more.
func TestKilledWriter(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for after := 1; after <= 10; after++ {
		f := newFixture(t)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var known []string
		out := runKilled(t, self, f.dir, func(line string) bool {
			known = append(known, strings.TrimSpace(line))
			return len(known) == after
		})
		f.open()
		list, err := f.Slices(today)
		if err != nil || len(list) < after || len(list) > after+out {
			t.Fatalf("%d slices after %d acknowledged ones: %v", len(list), after, err)
		}
		for _, name := range known {
			if a := credentialFor(f, "alice", name); a.code != None {
				t.Errorf("%s: %s", name, a.output)
			}
		}
	}
}
