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
