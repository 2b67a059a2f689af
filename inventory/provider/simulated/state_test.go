package simulated

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSameSeedSameBehaviour(t *testing.T) {
	course := func(seed uint64) (all []string) {
		b := setUp(t, "chance: {fail: 0.3, refuse: 0.2, slow: 0.1}")
		b.Seed, b.Jitter = seed, 0.5
		for i := range 40 {
			name := fmt.Sprint("n", i)
			changes, err := b.accept(false, "["+nodeUpdate(name, fmt.Sprint("pc", i%7), "on")+"]")
			if err != nil {
				t.Fatal(err)
			}
			b.now = b.now.Add(10 * time.Second)
			all = append(all, fmt.Sprintf("%t %s", changes[name]["error"] != nil, b.stateOf(name)))
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
	// Of 80 operations, 24 should fail and 16 be refused; half as many are very
	// improbable.
	if count["false failed"] < 6 || count["true absent"] < 5 || count["false ready"] < 5 {
		t.Errorf("chances are not met: %v", count)
	}
}

func TestRandomSeedIsKept(t *testing.T) {
	b := setUp(t, "")
	b.Seed = 0
	b.mustSet("[" + nodeUpdate("a", "pc1", "on") + "]")
	first := seedOf(t, b)
	b.mustSet("[" + nodeUpdate("b", "pc1", "on") + "]")
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

func TestIncompleteLineIsIgnored(t *testing.T) {
	b := setUp(t, "")
	b.mustSet("[" + nodeUpdate("a", "pc1", "on") + "]")
	path := filepath.Join(b.state, "log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.mustSet("[" + nodeUpdate("b", "pc2", "on") + "]")
	both, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// For each part of the second call that reached the file, the first call counts and
	// the next one works.
	for cut := len(whole); cut < len(both); cut++ {
		if err := os.WriteFile(path, both[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		b.expect(0, "a", "changing")
		b.expect(0, "b", "absent")
		b.mustSet("[" + nodeUpdate("c", "pc3", "on") + "]")
		b.expect(0, "a", "changing")
		b.expect(0, "c", "changing")
	}
}

func TestInvalidLogIsReported(t *testing.T) {
	b := setUp(t, "")
	b.mustSet("[" + nodeUpdate("a", "pc1", "on") + "]")
	if err := os.WriteFile(filepath.Join(b.state, "log"), []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.accept(false, "["+nodeUpdate("a", "pc1", "on")+"]"); err == nil || !strings.Contains(err.Error(), "log:2:") {
		t.Errorf("set: %v, want file and line", err)
	}
}

func TestLogIsCompacted(t *testing.T) {
	b := setUp(t, "")
	b.mustSet("[" + nodeUpdate("stays", "pc0", "on") + "]")
	big := strings.Repeat("x", 20<<10)
	for i := range 25 {
		name := fmt.Sprint("n", i)
		b.mustSet("[" + nodeUpdate(name, "pc1", "off") + `,{"name":"` + name + `","should":{"users":["` + big + `"]}}]`)
		b.mustSet(`[{"name":"` + name + `","should":{"ensure":"absent"}}]`)
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
