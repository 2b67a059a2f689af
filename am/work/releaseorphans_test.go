package work

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// TestReleaseOrphans checks what happens when an operator removes orphans, of which the
// double has two.
func TestReleaseOrphans(t *testing.T) {
	a, b := realName(1), "operators-own"
	for _, tt := range []struct {
		rule string
		play func(*env)
		ask  []string
		want string // orphans and errors in the answer, and orphans a minute later
	}{
		{"both", func(*env) {}, []string{a, b}, "[] map[]; 0 found"},
		{"one; the other stays", func(*env) {}, []string{a}, "[] map[]; 1 found"},
		{"one that is gone already", func(e *env) { e.d.with(func() { delete(e.d.nodes, a) }) }, []string{a}, "[] map[]; 1 found"},
		{"one that its provider does not remove", func(e *env) {
			e.d.with(func() { e.d.refuses[b] = refusing(provider.Failed, "no", false) })
		}, []string{b, a}, "[operators-own] map[operators-own:no]; 1 found"},
		{"a slow removal: providers are listed again soon", func(e *env) { e.d.with(func() { e.d.slow = 40 * time.Second }) }, []string{a, b}, "[" + a + " operators-own] map[]; 0 found"},
		{"one whose removal is reported but not done", func(e *env) { e.d.with(func() { e.d.lies[a] = true }) }, []string{a}, "[" + a + "] map[]; 2 found"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.sliceOf = func(string) string { return "" }
				e.addOrphans(a, b)
				e.start()
				e.within(time.Second, "both are found at once", func() bool { return len(e.r.Orphans()) == 2 })
				tt.play(e)
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				left, wrong, err := e.r.ReleaseOrphans(ctx, "double", tt.ask)
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprint(left, wrong)
				time.Sleep(71 * time.Second)
				if got += fmt.Sprintf("; %d found", len(e.r.Orphans())); got != tt.want {
					t.Errorf("%s; want %s", got, tt.want)
				}
			})
		})
	}
}

// TestReleaseOrphansKeepsSlivers checks that no request removes a resource that a record names.
func TestReleaseOrphansKeepsSlivers(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		left, wrong, err := e.r.ReleaseOrphans(context.Background(), "double", []string{"a-1", "none"})
		if err != nil || len(left)+len(wrong) > 0 || !e.node("a-1") || e.sliver("a-1").Status != ready {
			t.Errorf("%v, %v, %v; it is %v", left, wrong, err, e.sliver("a-1").Status)
		}
	})
}

// TestReleaseOrphansProviderError checks that the error is returned and the orphan stays known.
func TestReleaseOrphansProviderError(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.addOrphans(realName(1))
		e.start()
		e.within(time.Second, "it is found", func() bool { return len(e.r.Orphans()) == 1 })
		e.d.with(func() { e.d.breaks = fmt.Errorf("broken") })
		if _, _, err := e.r.ReleaseOrphans(context.Background(), "double", []string{realName(1)}); err == nil || len(e.r.Orphans()) != 1 {
			t.Errorf("%v, %v", err, e.r.Orphans())
		}
		e.d.with(func() { e.d.breaks = nil })
	})
}

// TestOrphansListed checks that OrphansListed is called at the
// start, and each time the orphans may have changed.
func TestOrphansListed(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var told atomic.Int32
		var found atomic.Value
		e.orphansListed = func(context.Context) {
			told.Add(1)
			var names []string
			for _, u := range e.r.Orphans() {
				names = append(names, u.Name)
			}
			found.Store(names)
		}
		knows := func(names ...string) func() bool {
			return func() bool { return told.Load() > 0 && slices.Equal(found.Load().([]string), names) }
		}
		e.addOrphans("x")
		e.start()
		e.within(time.Second, "it is told at once", knows("x"))
		e.addOrphans("y")
		e.within(6*time.Minute, "it is told of another", knows("x", "y"))
		e.d.with(func() { delete(e.d.nodes, "x") })
		e.within(6*time.Minute, "and of one less", knows("y"))
	})
}

// TestOrphanMissingFromAnswer checks that an orphan stays known after an answer that
// omits it, and after errors.
func TestOrphanMissingFromAnswer(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.addOrphans("x")
		e.start()
		e.within(time.Second, "it is found", func() bool { return len(e.r.Orphans()) == 1 })
		for _, tt := range []struct {
			rule string
			play func()
			want int
		}{
			{"the list leaves it out", func() { e.d.hidden = map[string]bool{"x": true} }, 1},
			{"and again", func() {}, 1},
			{"it is being removed", func() {
				e.d.hidden = nil
				e.d.nodes["x"].is["ensure"], e.d.nodes["x"].until = "absent", time.Now().Add(12*time.Minute)
			}, 1},
			{"not yet", func() {}, 1},
			{"it is gone", func() {}, 0},
		} {
			e.d.with(tt.play)
			time.Sleep(6 * time.Minute)
			if n := len(e.r.Orphans()); n != tt.want {
				t.Errorf("%s: %d found, want %d", tt.rule, n, tt.want)
			}
		}
	})
}
