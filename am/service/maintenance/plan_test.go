package maintenance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = at("2030-01-01T00:00:00Z")

func minute(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }

func planOf(windows ...*Window) *Plan {
	p := &Plan{Planned: windows}
	p.buildIndexes()
	return p
}

func TestNoPlan(t *testing.T) {
	var p *Plan
	from, until := p.StablePeriod(epoch)
	if p.WindowAt("pc1", epoch) != nil || p.NextWindow("pc1", epoch) != nil || !from.IsZero() || !until.IsZero() || p.Unknown(nil) != nil {
		t.Error("nothing says something")
	}
}

func TestUnknown(t *testing.T) {
	a := &Window{Line: 7, names: []string{"pc1", "pc2", "pc3"}, From: minute(0), Until: minute(1)}
	b := &Window{From: minute(0), Until: minute(1)}
	got := planOf(a, b).Unknown(func(name string) bool { return name == "pc1" })
	if len(got) != 1 || got[0] != (Unknown{7, "pc2"}) {
		t.Errorf("%+v", got)
	}
}

// TestWindowsModel compares a plan with a walk through all windows.
func TestWindowsModel(t *testing.T) {
	names := []string{"pc1", "pc2", "pc3", "h1"}
	rapid.Check(t, func(t *rapid.T) {
		var windows []*Window
		for range rapid.IntRange(0, 6).Draw(t, "windows") {
			from := rapid.IntRange(0, 20).Draw(t, "from")
			windows = append(windows, &Window{
				names: rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "names"),
				From:  minute(from), Until: minute(from + rapid.IntRange(1, 10).Draw(t, "minutes")),
			})
		}
		p := planOf(windows...)
		state := func(now time.Time) string {
			text := ""
			for _, name := range names {
				var on, next *Window
				for _, w := range windows {
					if len(w.names) > 0 && !slices.Contains(w.names, name) {
						continue
					}
					if !w.From.After(now) && w.Until.After(now) && (on == nil || w.Until.After(on.Until)) {
						on = w
					}
					if w.From.After(now) && (next == nil || w.From.Before(next.From)) {
						next = w
					}
				}
				gotOn, gotNext := p.WindowAt(name, now), p.NextWindow(name, now)
				if (gotOn == nil) != (on == nil) || on != nil && !gotOn.Until.Equal(on.Until) {
					t.Fatalf("%s at %v: On is %+v, want %+v", name, now, gotOn, on)
				}
				if (gotNext == nil) != (next == nil) || next != nil && !gotNext.From.Equal(next.From) {
					t.Fatalf("%s at %v: Next is %+v, want %+v", name, now, gotNext, next)
				}
				text += fmt.Sprintf("%s %p;", name, gotOn)
			}
			return text
		}
		// Nothing changes within a steady time.
		for half := range 70 {
			now := epoch.Add(time.Duration(half) * 30 * time.Second)
			from, until := p.StablePeriod(now)
			if from.After(now) || !until.IsZero() && !until.After(now) {
				t.Fatalf("%v is not within %v and %v", now, from, until)
			}
			here := state(now)
			if !from.IsZero() && state(from) != here {
				t.Fatalf("since %v, before %v, something has changed", from, now)
			}
			if !until.IsZero() && state(until.Add(-time.Nanosecond)) != here {
				t.Fatalf("after %v, before %v, something changes", now, until)
			}
		}
	})
}

func BenchmarkSteady(b *testing.B) {
	var windows []*Window
	for i := range maxWindows {
		windows = append(windows, &Window{names: []string{"pc1"}, From: minute(2 * i), Until: minute(2*i + 1)})
	}
	p := planOf(windows...)
	for b.Loop() {
		p.StablePeriod(minute(777))
	}
}

// TestWithHoldsMore checks that drains and locks from elsewhere are added to those of the file,
// that the file has precedence, and that its plan is not changed.
func TestWithHoldsMore(t *testing.T) {
	const locked, drained = "lockdown: {text: power}\n", "drained: [{components: [pc1], text: fan}]\nplanned: [{components: [pc2], from: 2030-01-01T00:00:00Z, until: 2030-01-02T00:00:00Z, text: disks}]\n"
	held := []*Drain{NewOrphanDrain("pc1", "found", minute(0)), NewOrphanDrain("pc3", "found", minute(0))}
	for _, tt := range []struct {
		rule, file string
		lockdown   *Lockdown
		held       []*Drain
		want       string // the lockdown, and what drains pc1, pc2 and pc3
	}{
		{"nothing", drained, nil, nil, " fan  "},
		{"more components", drained, nil, held, " fan  found!"},
		{"beside an empty file", "", nil, held, " found!  found!"},
		{"a lockdown", drained, &Lockdown{Text: "restored"}, nil, "restored fan  "},
		{"beside that of the file", locked, &Lockdown{Text: "restored"}, held[:1], "power found!  "},
	} {
		p, err := Parse([]byte(tt.file), "maintenance.yaml")
		if err != nil {
			t.Fatal(err)
		}
		say := func(p *Plan) string {
			text := ""
			if p.Lockdown != nil {
				text = p.Lockdown.Text
			}
			for _, c := range []string{"pc1", "pc2", "pc3"} {
				text += " "
				if d := p.Drain(c); d != nil {
					if text += d.Text; d.Orphaned {
						text += "!"
					}
				}
			}
			return text
		}
		before := say(p)
		q := p.With(tt.lockdown, tt.held)
		if got := say(q); got != tt.want || say(p) != before || q.Fingerprint != p.Fingerprint {
			t.Errorf("%s: %q, want %q; the file's was %q and is %q", tt.rule, got, tt.want, before, say(p))
		}
		if (q.WindowAt("pc2", minute(1)) != nil) != (tt.file == drained) {
			t.Errorf("%s: the windows are not those of the file", tt.rule)
		}
	}
}
