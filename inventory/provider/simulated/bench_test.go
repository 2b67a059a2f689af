package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// bench is a simulation with its own clock; a hang or a death ends the call with a panic.
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

// accept sends updates as JSON and returns the changes by name.
func (b *bench) accept(noop bool, updates string) (changes map[string]map[string]any, end error) {
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

func (b *bench) mustSet(updates string) {
	b.t.Helper()
	changes, err := b.accept(false, updates)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, c := range changes {
		if c["error"] != nil {
			b.t.Fatalf("%s: %v", name, c["error"])
		}
	}
}

func (b *bench) getNode(name string) provider.Resource {
	b.t.Helper()
	o := b.get([]string{name})
	r, ok := o["resources"].([]provider.Resource)
	if !ok || len(r) != 1 {
		b.t.Fatalf("get: %v", o)
	}
	return r[0]
}

func (b *bench) stateOf(name string) string { // "absent", or the state
	r := b.getNode(name)
	if provider.Gone(r) {
		return provider.Absent
	}
	return r.Text(provider.AttrState)
}

func (b *bench) expect(after time.Duration, name, state string) {
	b.t.Helper()
	b.now = b.now.Add(after)
	if got := b.stateOf(name); got != state {
		b.t.Fatalf("%s is %s at %s, want %s: %v", name, got, b.now.Format("05.000"), state, b.getNode(name))
	}
}

func nodeUpdate(name, component, power string) string {
	return fmt.Sprintf(`{"name":%q,"is":{"ensure":"absent"},"should":{"ensure":"present","component":%q,"power":%q}}`, name, component, power)
}
