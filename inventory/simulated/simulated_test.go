package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/inventory/provider"
)

// bench is a simulation under a clock of its own; a hang or a death ends the
// call by panicking.
type bench struct {
	*simulation
	t   *testing.T
	now time.Time
}

var errHang, errDie = errors.New("hangs"), errors.New("dies")

func setUp(t *testing.T, text string) *bench {
	t.Helper()
	s, err := parseSettings([]byte("jitter: 0\nseed: 1\n"+text), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.simulation = &simulation{
		settings: s,
		state:    filepath.Join(t.TempDir(), "x.state"),
		now:      func() time.Time { return b.now },
		hang:     func() { panic(errHang) },
		die:      func() { panic(errDie) },
	}
	return b
}

// ask sends updates as JSON and returns the changes by name.
func (b *bench) ask(noop bool, updates string) (changes map[string]map[string]any, end error) {
	b.t.Helper()
	defer func() {
		if r := recover(); r != nil {
			end = r.(error)
		}
	}()
	var u []update
	if err := json.Unmarshal([]byte(updates), &u); err != nil {
		b.t.Fatal(err)
	}
	text, err := json.Marshal(b.set(u, noop))
	if err != nil {
		b.t.Fatal(err)
	}
	var answer struct {
		Changes []map[string]any
		Error   *struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		b.t.Fatal(err)
	}
	if answer.Error != nil {
		return nil, errors.New(answer.Error.Message)
	}
	changes = map[string]map[string]any{}
	for _, c := range answer.Changes {
		changes[c["name"].(string)] = c
	}
	return changes, nil
}

func (b *bench) must(updates string) {
	b.t.Helper()
	changes, err := b.ask(false, updates)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, c := range changes {
		if c["error"] != nil {
			b.t.Fatalf("%s: %v", name, c["error"])
		}
	}
}

func (b *bench) look(name string) provider.Resource {
	b.t.Helper()
	o := b.get([]string{name})
	r, ok := o["resources"].([]provider.Resource)
	if !ok || len(r) != 1 {
		b.t.Fatalf("get: %v", o)
	}
	return r[0]
}

func (b *bench) state1(name string) string { // "absent", or the state
	r := b.look(name)
	if provider.Gone(r) {
		return provider.Absent
	}
	return r.Text(provider.AttrState)
}

func (b *bench) expect(after time.Duration, name, state string) {
	b.t.Helper()
	b.now = b.now.Add(after)
	if got := b.state1(name); got != state {
		b.t.Fatalf("%s is %s at %s, want %s: %v", name, got, b.now.Format("05.000"), state, b.look(name))
	}
}

func made(name, component, power string) string {
	return fmt.Sprintf(`{"name":%q,"is":{"ensure":"absent"},"should":{"ensure":"present","component":%q,"power":%q}}`, name, component, power)
}

func TestLifeOfANode(t *testing.T) {
	b := setUp(t, "")
	b.expect(0, "a", "absent")
	b.must("[" + made("a", "PC_1", "off") + "]")
	b.expect(0, "a", "changing")
	b.expect(1999*time.Millisecond, "a", "changing")
	b.expect(time.Millisecond, "a", "ready")
	if got := b.look("a"); got["login"] != nil || got["host_keys"] != nil {
		t.Errorf("has doors while it is off: %v", got)
	}
	b.must(`[{"name":"a","should":{"power":"on"}}]`)
	b.expect(1499*time.Millisecond, "a", "changing")
	b.expect(time.Millisecond, "a", "ready")
	up := b.look("a")
	if diff := cmp.Diff([]string{"pc-1.sim.example.org:22"}, up["login"]); diff != "" {
		t.Errorf("login (-want +got):\n%s", diff)
	}
	if o := provider.ObservedNode(up); len(o.Logins) != 1 || len(o.HostKeys) != 1 || len(o.Addresses) != 1 {
		t.Errorf("a manager would read %+v", o)
	}
	b.must(`[{"name":"a","should":{"restart_serial":"1"}}]`)
	if b.expect(1999*time.Millisecond, "a", "changing"); b.look("a")["login"] != nil {
		t.Error("has doors while it restarts")
	}
	b.expect(time.Millisecond, "a", "ready")
	b.must(`[{"name":"a","should":{"users":["{\"login\":\"u\"}"]}}]`)
	if b.expect(199*time.Millisecond, "a", "changing"); b.look("a")["login"] == nil {
		t.Error("lost its doors while accounts are updated")
	}
	b.expect(time.Millisecond, "a", "ready")
	b.must(`[{"name":"a","should":{"power":"off"}}]`)
	b.expect(500*time.Millisecond, "a", "ready")
	b.must(`[{"name":"a","should":{"hostname":"web","interfaces":["{}"],"restart_serial":"2"}}]`)
	b.expect(time.Second, "a", "ready")
	want := provider.Resource{
		"name": "a", "ensure": "present", "power": "off", "restart_serial": "2", "component": "PC_1", "sliver_type": "", "image": "",
		"hostname": "web", "users": []string{`{"login":"u"}`}, "interfaces": []string{"{}"}, "state": "ready", "addresses": []string{"192.0.2.1"},
	}
	if diff := cmp.Diff(want, b.look("a")); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	gone := `[{"name":"a","should":{"ensure":"absent"}}]`
	b.must(gone)
	b.expect(499*time.Millisecond, "a", "changing")
	b.must(gone) // again, which does not start it anew
	b.expect(time.Millisecond, "a", "absent")
	b.must(gone)
	b.expect(0, "a", "absent")
}

func TestRefusals(t *testing.T) {
	b := setUp(t, "")
	b.must("[" + made("a", "pc1", "on") + "," + made("leaving", "pc2", "on") + "]")
	b.must(`[{"name":"leaving","should":{"ensure":"absent"}}]`)
	changes, err := b.ask(false, `[
		{"name":"nobody","should":{"power":"on"}},
		{"name":"homeless","should":{"ensure":"present"}},
		{"name":"a","should":{"image":"other"}},
		{"name":"leaving","should":{"power":"off"}},
		{"should":{"ensure":"present"}},
		`+made("b", "pc1", "on")+`]`)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"nobody": "unknown", "homeless": "failed", "a": "failed", "leaving": "failed", "": "failed"} {
		if e, _ := changes[name]["error"].(map[string]any); e["kind"] != kind {
			t.Errorf("%q: %v, want kind %s", name, changes[name], kind)
		}
	}
	if changes["b"]["error"] != nil || b.state1("b") != "changing" {
		t.Errorf("b was not accepted beside them: %v", changes["b"])
	}
	if b.look("b")["login"] != nil {
		t.Error("b has doors too early")
	}
	b.now = b.now.Add(time.Minute)
	if a, b := b.look("a").List("login"), b.look("b").List("login"); slices.Equal(a, b) || len(b) != 1 {
		t.Errorf("two nodes of one component have the doors %v and %v", a, b)
	}
}

func TestNoopSaysTheSameAndDoesNothing(t *testing.T) {
	b := setUp(t, "components: [{name: bad, behaviour: refuse}, {name: dead, behaviour: die}, {name: hung, behaviour: hang}]")
	all := "[" + made("a", "pc1", "on") + "," + made("b", "bad", "on") + "]"
	dry, err := b.ask(true, all)
	if err != nil || b.state1("a") != "absent" {
		t.Fatalf("after a dry run a is %s, %v", b.state1("a"), err)
	}
	wet, err := b.ask(false, all)
	if diff := cmp.Diff(wet, dry); diff != "" || err != nil {
		t.Errorf("dry and real run differ: %v\n%s", err, diff)
	}
	if _, err := b.ask(true, "["+made("c", "dead", "on")+","+made("d", "hung", "on")+"]"); err != nil {
		t.Errorf("a dry run %v", err)
	}
}

func TestDryRunsMisbehaveWhenToldTo(t *testing.T) {
	b := setUp(t, "components: [{name: shy, behaviour: refuse, on: [probe], kind: failed}, {name: gone, behaviour: refuse, kind: unknown}, {name: dead, behaviour: die, on: [probe]}, {name: hung, behaviour: hang, on: [probe]}]")
	kind := func(noop bool, name, component string) any {
		t.Helper()
		changes, err := b.ask(noop, "["+made(name, component, "on")+"]")
		if err != nil {
			t.Fatal(err)
		}
		e, _ := changes[name]["error"].(map[string]any)
		return e["kind"]
	}
	for _, tt := range []struct {
		component string
		dry, wet  any
	}{{"shy", "failed", nil}, {"gone", "unknown", "unknown"}, {"pc1", nil, nil}} {
		if dry, wet := kind(true, tt.component, tt.component), kind(false, tt.component, tt.component); dry != tt.dry || wet != tt.wet {
			t.Errorf("%s: dry run %v, real run %v; want %v and %v", tt.component, dry, wet, tt.dry, tt.wet)
		}
	}
	for component, end := range map[string]error{"dead": errDie, "hung": errHang} {
		if _, err := b.ask(true, "["+made(component, component, "on")+"]"); err != end {
			t.Errorf("%s: a dry run %v", component, err)
		}
		if b.state1(component) != "absent" {
			t.Errorf("%s: a dry run has made it", component)
		}
		if _, err := b.ask(false, "["+made(component, component, "on")+"]"); err != nil {
			t.Errorf("%s: the real run %v", component, err)
		}
	}
}

// TestARefusalHasItsOwnKind: a component may be listed for several operations.
func TestARefusalHasItsOwnKind(t *testing.T) {
	b := setUp(t, "components: [{name: pc3, behaviour: refuse, on: [start], kind: failed}, {name: pc3, behaviour: refuse, on: [make], kind: unknown, times: 1}, {name: pc3, behaviour: refuse, on: [probe]}]")
	for _, tt := range []struct {
		what, update string
		noop         bool
		kind         any
	}{
		{"dry run", made("n", "pc3", "off"), true, "forbidden"},
		{"make", made("n", "pc3", "off"), false, "unknown"},
		{"make again", made("n", "pc3", "off"), false, nil},
		{"start", `{"name":"n","should":{"power":"on"}}`, false, "failed"},
	} {
		changes, err := b.ask(tt.noop, "["+tt.update+"]")
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := changes["n"]["error"].(map[string]any); e["kind"] != tt.kind {
			t.Errorf("%s: %v, want %v", tt.what, changes["n"], tt.kind)
		}
	}
}

func TestMisbehaviour(t *testing.T) {
	set := func(b *bench, updates ...string) error {
		_, err := b.ask(false, "["+strings.Join(updates, ",")+"]")
		return err
	}
	start := `{"name":"n","should":{"power":"on"}}`
	remove := `{"name":"n","should":{"ensure":"absent"}}`
	node := made("n", "pc3", "off")
	other := made("o", "pc1", "off")

	t.Run("slow takes longer", func(t *testing.T) {
		b := setUp(t, "slow_factor: 3\ncomponents: [{name: pc3, behaviour: slow}]")
		b.must("[" + node + "]")
		b.expect(5999*time.Millisecond, "n", "changing")
		b.expect(time.Millisecond, "n", "ready")
	})
	t.Run("fail ends in failed and can be removed", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail}]")
		b.must("[" + node + "]")
		b.expect(time.Second, "n", "changing")
		b.expect(time.Second, "n", "failed")
		if got := b.look("n").Text("message"); got != "pc3 could not be installed; this failure is simulated" {
			t.Errorf("message %q", got)
		}
		b.must("[" + start + "]")
		b.expect(time.Minute, "n", "failed")
		b.must("[" + remove + "]")
		b.expect(time.Minute, "n", "absent")
	})
	t.Run("fail to start, then start well", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail, times: 1, on: [start]}]")
		b.must("[" + node + "]")
		b.expect(2*time.Second, "n", "ready")
		b.must("[" + start + "]")
		b.expect(2*time.Second, "n", "failed")
		b.must(`[{"name":"n","should":{"power":"off"}}]`)
		b.expect(2*time.Second, "n", "ready")
		b.must("[" + start + "]")
		b.expect(2*time.Second, "n", "ready")
	})
	t.Run("fail to remove, then remove well", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail, times: 1, on: [remove]}]")
		b.must("[" + node + "]")
		b.must("[" + remove + "]")
		b.expect(2*time.Second, "n", "failed")
		b.must("[" + remove + "]")
		b.expect(2*time.Second, "n", "absent")
	})
	t.Run("refuse", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: refuse}]")
		changes, err := b.ask(false, "["+node+","+other+"]")
		if e, _ := changes["n"]["error"].(map[string]any); err != nil || e["kind"] != "forbidden" || changes["o"]["error"] != nil {
			t.Errorf("%v, %v", changes, err)
		}
		b.expect(0, "n", "absent")
	})
	t.Run("hang does nothing and blocks nobody", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: hang, times: 1}]")
		if err := set(b, other, node); err != errHang {
			t.Fatalf("set %v", err)
		}
		b.expect(0, "o", "changing")
		b.expect(0, "n", "absent")
		if err := set(b, node); err != nil {
			t.Fatalf("the second time: %v", err)
		}
		b.expect(0, "n", "changing")
	})
	t.Run("die accepts and does not answer", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: die, on: [make]}]")
		if err := set(b, other, node, made("never", "pc4", "off")); err != errDie {
			t.Fatalf("set %v", err)
		}
		b.expect(0, "o", "changing")
		b.expect(2*time.Second, "n", "ready")
		b.expect(0, "never", "absent")
		b.must("[" + start + "]")
	})
	t.Run("lose", func(t *testing.T) {
		b := setUp(t, "lose_after: 5s\ncomponents: [{name: pc3, behaviour: lose, times: 1}]")
		b.must("[" + node + "]")
		b.expect(6999*time.Millisecond, "n", "ready")
		b.expect(time.Millisecond, "n", "absent")
		b.must("[" + node + "]")
		b.expect(time.Minute, "n", "ready")
	})
}

func TestTheSameSeedIsTheSameCourse(t *testing.T) {
	course := func(seed uint64) (all []string) {
		b := setUp(t, "chance: {fail: 0.3, refuse: 0.2, slow: 0.1}")
		b.Seed, b.Jitter = seed, 0.5
		for i := range 40 {
			name := fmt.Sprint("n", i)
			changes, err := b.ask(false, "["+made(name, fmt.Sprint("pc", i%7), "on")+"]")
			if err != nil {
				t.Fatal(err)
			}
			b.now = b.now.Add(10 * time.Second)
			all = append(all, fmt.Sprintf("%t %s", changes[name]["error"] != nil, b.state1(name)))
		}
		return all
	}
	one, again, two := course(7), course(7), course(8)
	if !slices.Equal(one, again) {
		t.Errorf("seed 7 gives\n%v and\n%v", one, again)
	}
	if slices.Equal(one, two) {
		t.Error("seeds 7 and 8 give the same")
	}
	count := map[string]int{}
	for _, s := range append(one, two...) {
		count[s]++
	}
	// 80 throws: 24 fail and 16 refused are due; half as many would be a wonder.
	if count["false failed"] < 6 || count["true absent"] < 5 || count["false ready"] < 5 {
		t.Errorf("chances are not met: %v", count)
	}
}

func TestNoSeedKeepsTheOneItDrew(t *testing.T) {
	b := setUp(t, "")
	b.Seed = 0
	b.must("[" + made("a", "pc1", "on") + "]")
	first := seedOf(t, b)
	b.must("[" + made("b", "pc1", "on") + "]")
	if again := seedOf(t, b); first == 0 || first != again {
		t.Errorf("seeds %d and %d", first, again)
	}
}

func seedOf(t *testing.T, b *bench) uint64 {
	t.Helper()
	s, err := openState(b.state, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	return s.seed
}

func TestTornLineDoesNotCount(t *testing.T) {
	b := setUp(t, "")
	b.must("[" + made("a", "pc1", "on") + "]")
	path := filepath.Join(b.state, "log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.must("[" + made("b", "pc2", "on") + "]")
	both, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever part of the second call reached the file, the first counts and
	// the next one works.
	for cut := len(whole); cut < len(both); cut++ {
		if err := os.WriteFile(path, both[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		b.expect(0, "a", "changing")
		b.expect(0, "b", "absent")
		b.must("[" + made("c", "pc3", "on") + "]")
		b.expect(0, "a", "changing")
		b.expect(0, "c", "changing")
	}
}

func TestSpoiledLogIsSaid(t *testing.T) {
	b := setUp(t, "")
	b.must("[" + made("a", "pc1", "on") + "]")
	if err := os.WriteFile(filepath.Join(b.state, "log"), []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ask(false, "["+made("a", "pc1", "on")+"]"); err == nil || !strings.Contains(err.Error(), "log:2:") {
		t.Errorf("set: %v, want file and line", err)
	}
}

func TestLogIsCompacted(t *testing.T) {
	b := setUp(t, "")
	b.must("[" + made("stays", "pc0", "on") + "]")
	big := strings.Repeat("x", 20<<10)
	for i := range 25 {
		name := fmt.Sprint("n", i)
		b.must("[" + made(name, "pc1", "off") + `,{"name":"` + name + `","should":{"users":["` + big + `"]}}]`)
		b.must(`[{"name":"` + name + `","should":{"ensure":"absent"}}]`)
		b.now = b.now.Add(time.Minute)
	}
	st, err := os.Stat(filepath.Join(b.state, "log"))
	if err != nil || st.Size() > 2*compactAbove+100<<10 {
		t.Errorf("the log has %d bytes, %v", st.Size(), err)
	}
	b.expect(0, "stays", "ready")
	s, err := openState(b.state, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if h := s.histories["pc1"]; h.Draws != 75 {
		t.Errorf("pc1 has had %d operations, want 75", h.Draws)
	}
}

func TestInterfacesHaveHardwareAddresses(t *testing.T) {
	b := setUp(t, "")
	ports := []string{`{"client_id":"a:0","link":"l","vlan":101,"addresses":["10.128.0.1/24"]}`, `{"client_id":"a:\u003c1"}`, `{"role":"control","public_address":"192.0.2.10"}`, `eth7`}
	asked, _ := json.Marshal(ports)
	b.must(`[{"name":"a","should":{"ensure":"present","component":"pc1","interfaces":` + string(asked) + `}},{"name":"b","should":{"ensure":"present","component":"pc1","interfaces":` + string(asked) + `}}]`)
	a, other := b.look("a"), b.look("b")
	macs := provider.ObservedNode(a).MACs
	if len(macs) != 2 || !strings.HasPrefix(macs["a:0"], "02:") || macs["a:0"] == macs["a:<1"] || macs["a:<1"] == "" {
		t.Errorf("hardware addresses %v of %q", macs, a["interfaces"])
	}
	if provider.ObservedNode(other).MACs["a:0"] == macs["a:0"] {
		t.Error("two nodes have the same")
	}
	should := provider.Resource{"interfaces": ports}
	if diff := provider.Diff(a, should); len(diff) != 0 {
		t.Errorf("would be asked again for %q, is %q", diff, a["interfaces"])
	}
	b.now = b.now.Add(time.Hour)
	b.must(`[{"name":"a","should":{"power":"off"}}]`)
	if diff := cmp.Diff(macs, provider.ObservedNode(b.look("a")).MACs); diff != "" {
		t.Errorf("they do not last (-before +after):\n%s", diff)
	}
}

func TestAddressesAreNobodys(t *testing.T) {
	seen := map[string]bool{}
	for place := range 100_000 {
		a := address(place)
		seen[a] = true
		if p := strings.SplitN(a, ".", 4); len(p) != 4 || !slices.Contains([]string{"192.0.2", "198.51.100", "203.0.113"}, strings.Join(p[:3], ".")) && p[0]+"."+p[1] != "198.18" && p[0]+"."+p[1] != "198.19" {
			t.Fatalf("place %d has the address %s", place, a)
		}
	}
	if len(seen) != 100_000 {
		t.Errorf("%d addresses for 100000 places", len(seen))
	}
	if address(1<<30) == "" {
		t.Error("no address beyond the ranges")
	}
}

func TestSettings(t *testing.T) {
	got, err := parseSettings(SettingsFor("sim.lab.example.org"), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Domain = "sim.lab.example.org"
	got.Chance = nil // written as empty
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is written down is not the default (-default +written):\n%s", diff)
	}
	for _, text := range []string{"", "# nothing yet\n", "chance:\ncomponents:\n"} {
		if s, err := parseSettings([]byte(text), "x.yaml"); err != nil || s.Domain != DefaultDomain {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	full, err := parseSettings([]byte("components:\n- &a {name: pc1, behaviour: fail, on: [make, start], times: 3}\n- *a\nchance: {fail: 0.5, slow: 1e-1}\nseed: 18446744073709551615\n"), "x.yaml")
	one := component{Name: "pc1", Behaviour: fail, On: []operation{opMake, opStart}, Times: 3}
	if diff := cmp.Diff([]component{one, one}, full.Components); err != nil || diff != "" || full.Chance[slow] != 0.1 || full.Seed != 1<<64-1 {
		t.Errorf("%+v, %v\n%s", full, err, diff)
	}
}

func TestMistakesInSettings(t *testing.T) {
	behaviours, operations := "slow, fail, refuse, hang, die, lose", "make, start, stop, restart, users, remove"
	for _, tt := range []struct{ rule, text, want string }{
		{"key of a component", "components:\n- {nmae: pc1, behaviour: fail}", `x.yaml:2: components have no key "nmae"; did you mean "name"?`},
		{"unknown key", "\nslowfactor: 3", `x.yaml:2: the settings have no key "slowfactor"; did you mean "slow_factor"?`},
		{"key twice", "jitter: 0\njitter: 1", `x.yaml:2: the settings have the key "jitter" twice; drop one`},
		{"unknown operation", "timing: {boot: 1s}", `x.yaml:1: timing has no operation "boot"; there are ` + operations},
		{"no time", "timing: {make: two}", `x.yaml:1: make is "two" and must be a time up to 24h; write it like 2s or 200ms`},
		{"time without a unit", "timing: {make: 2}", `x.yaml:1: make is "2" and must be a time up to 24h; write it like 2s or 200ms`},
		{"negative time", "lose_after: -1s", `x.yaml:1: lose_after is "-1s" and must be a time up to 24h; write it like 2s or 200ms`},
		{"times in a list", "timing: [1s]", "x.yaml:1: timing must be keys and values; there are " + operations},
		{"near behaviour", "components: [{name: pc1, behaviour: sloww}]", `x.yaml:1: there is no behaviour "sloww"; did you mean "slow"?`},
		{"unknown behaviour", "components: [{name: pc1, behaviour: odd}]", `x.yaml:1: there is no behaviour "odd"; there are ` + behaviours},
		{"behaviour of nobody", "components: [{behaviour: fail}]", "x.yaml:1: a component has no name; add one, such as name: pc3"},
		{"no behaviour", "components: [{name: pc1}]", "x.yaml:1: component pc1 has no behaviour; add one of " + behaviours},
		{"component of one word", "components: [pc1]", "x.yaml:1: components must be keys and values; there are name, behaviour, on, times, kind"},
		{"components are no list", "components: {name: pc1}", "x.yaml:1: components must be a list: write it in brackets, or each item on a line that begins with a hyphen"},
		{"misbehaves in what", "components: [{name: pc1, behaviour: fail, on: [strat]}]", `x.yaml:1: there is no operation "strat"; did you mean "start"?`},
		{"kind of a refusal", "components: [{name: pc1, behaviour: refuse, kind: secret}]", `x.yaml:1: there is no kind "secret"; there are unknown, forbidden, failed`},
		{"times of dry runs", "components: [{name: pc1, behaviour: fail, times: 2, on: [make, probe]}]", "x.yaml:1: component pc1 has times together with probe, and nobody counts dry runs, which change nothing; drop times, or write what it does in dry runs as a component of its own"},
		{"kind of what is no refusal", "components: [{name: pc1, behaviour: fail, kind: unknown}]", "x.yaml:1: component pc1 has a kind, which is of refusals, and its behaviour is fail; drop one of them"},
		{"times", "components: [{name: pc1, behaviour: fail, times: -1}]", `x.yaml:1: times "-1" must be a whole number; 0 means always`},
		{"unknown chance", "chance: {odd: 0.1}", `x.yaml:1: chance has no behaviour "odd"; there are ` + behaviours},
		{"chance above one", "chance: {fail: 1.5}", `x.yaml:1: the chance of fail is "1.5" and must be a number from 0 to 1`},
		{"chances above one", "chance: {fail: 0.6, slow: 0.6}", "x.yaml:1: the chances are together 1.2, which is more than 1; lower them"},
		{"chance not a number", "chance: {fail: .nan}", `x.yaml:1: the chance of fail is ".nan" and must be a number from 0 to 1`},
		{"jitter", "jitter: 2", `x.yaml:1: jitter is "2" and must be a number from 0 to 1`},
		{"slow factor", "slow_factor: 0.5", `x.yaml:1: slow_factor is "0.5" and must be a number from 1 to 1000000`},
		{"seed", "seed: -1", `x.yaml:1: seed "-1" must be a whole number from 0 on`},
		{"empty domain", "domain: ''", "x.yaml:1: domain is empty; write a text"},
		{"not YAML", "timing:\n  make: 1s\n stop: 1s\n", "x.yaml: this is not YAML at or after line "},
		{"all at once, in order of lines", "components: [{name: pc1, behaviour: odd}]\njitter: 2\ndomain: ''",
			`x.yaml:1: there is no behaviour "odd"; there are ` + behaviours + `; x.yaml:2: jitter is "2" and must be a number from 0 to 1; x.yaml:3: domain is empty; write a text`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := parseSettings([]byte(tt.text), "x.yaml")
			if err == nil {
				t.Fatalf("%q was accepted: %+v", tt.text, s)
			}
			if got := err.Error(); got != tt.want && (tt.rule != "not YAML" || !strings.HasPrefix(got, tt.want)) || strings.ContainsRune(got, '\n') {
				t.Errorf("the error is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(Settings())
	f.Add([]byte("components: &a [*a]\n"))
	f.Add([]byte("chance: {fail: 1, fail: .inf}\ntiming: x\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSettings(text, "x.yaml")
		if err != nil {
			if strings.ContainsRune(err.Error(), '\n') || !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Fatalf("%q is no line about a file", err)
			}
			return
		}
		if s.Domain == "" || !(s.Jitter >= 0 && s.Jitter <= 1) || s.SlowFactor < 1 {
			t.Fatalf("accepted %+v", s)
		}
	})
}

func TestZeroTimesAreReadyAtOnce(t *testing.T) {
	b := setUp(t, "timing: {make: 0s, start: 0s}")
	b.must("[" + made("a", "pc1", "on") + "]")
	b.expect(0, "a", "ready")
}

func TestScript(t *testing.T) {
	if got, want := string(Script("/opt/bin/patchbay-local", "simulated")), "#!/bin/sh\nexec /opt/bin/patchbay-local simulated --name simulated \"$@\"\n"; got != want {
		t.Errorf("Script = %q, want %q", got, want)
	}
	if got := string(Script("/it's here/x", "y")); !strings.Contains(got, `'/it'\''s here/x'`) {
		t.Errorf("Script = %q", got)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ rule, name, argument, in string }{
		{"a name that leads out", "../x", "ral_action=get", "{}"},
		{"no name", "", "ral_action=get", "{}"},
		{"not an action", "x", "get", "{}"},
		{"unknown action", "x", "ral_action=list", "{}"},
		{"input is no JSON", "x", "ral_action=get", "names"},
		{"input of the wrong form", "x", "ral_action=set", `{"updates":7}`},
	} {
		var out bytes.Buffer
		if err := Run(dir, tt.name, tt.argument, strings.NewReader(tt.in), &out); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, answered %q", tt.rule, err, &out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte("jitter: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Run(dir, "x", "ral_action=get", strings.NewReader("{}"), &out); err != nil || !strings.Contains(out.String(), `"x.yaml:1: jitter is `) {
		t.Errorf("bad settings: %v, answered %q", err, &out)
	}
}

func FuzzSet(f *testing.F) {
	f.Add(`[{"name":"a","should":{"ensure":"present","component":"pc1","power":"on"}}]`, int64(3))
	f.Add(`[{"name":"a","should":{"ensure":"absent"}},{"name":"a","should":{"users":["x"]}}]`, int64(0))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		var u []update
		if json.Unmarshal([]byte(text), &u) != nil {
			return
		}
		now := time.Unix(seconds%1e6, 0)
		s := &simulation{settings: defaults(), state: dir, now: func() time.Time { return now }}
		if o := s.set(u, false); o["error"] != nil {
			t.Fatal(o)
		}
		if o := s.get(nil); o["error"] != nil {
			t.Fatal(o)
		}
	})
}
