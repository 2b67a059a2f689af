package dryrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// dryRuns counts the dry runs of a double.
func (d *double) dryRuns() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if strings.HasPrefix(c, "set noop=true") {
			n++
		}
	}
	return n
}

// hanging is a bench whose rack hangs in dry runs for the components h0, h1, ….
func hanging(n int) *bench {
	b := newBench("rack")
	b.doubles["rack"].breaks = map[string]error{}
	for i := range n {
		b.doubles["rack"].breaks[fmt.Sprint("rack.h", i)] = errHangs
	}
	return b
}

// TestHangingComponentIsAskedOnceAMinute checks that a component whose dry run hangs gets
// one dry run a minute, however many calls ask for it. Other components of its provider do not
// wait.
func TestHangingComponentIsAskedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := hanging(3)
		var calls sync.WaitGroup
		defer calls.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 3 * 2 * atOnce {
			calls.Go(func() {
				for ctx.Err() == nil {
					b.Probe(ctx, on(fmt.Sprint("rack.h", i%3)), nil, func(am.Sliver) bool { return false })
					time.Sleep(time.Second)
				}
			})
		}
		time.Sleep(35 * time.Second)
		d := b.doubles["rack"]
		if n := d.dryRuns(); n != 3 {
			t.Errorf("%d dry runs, want one for each component", n)
		}
		for range 20 {
			begun := time.Now()
			got := says(b.probe(t, on("rack.good")))
			if took := time.Since(begun); got[0] != "yes" || took != 0 {
				t.Errorf("a healthy one: %s after %v", got, took)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestNoAnswerIsRememberedForAMinute(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		why   error
		first string
		again string // the answer before the provider works again
	}{
		{"hangs", errHangs, "8 did not answer in time; try again later", "8 did not answer in time; that was less"},
		{"dies", errors.New("signal: killed"), "5 its provider rack did not answer; try again later", "5 its provider rack did not answer; that was less"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench("rack")
				d := b.doubles["rack"]
				d.breaks = map[string]error{"rack.a": tt.why}
				if got := says(b.probe(t, on("rack.a"))); got[0] != tt.first {
					t.Fatalf("%q, want %q", got, tt.first)
				}
				until := time.Now().Add(quiet)
				d.breaks = nil // the provider works again
				calls := len(d.calls)
				for range 3 {
					got := says(b.probe(t, on("rack.b", "rack.a")))
					when := "try again after " + until.Add(time.Second).UTC().Format(time.RFC3339)
					if got[0] != "yes" || !strings.HasPrefix(got[1], tt.again) || !strings.HasSuffix(got[1], when) {
						t.Errorf("%q, want %q … %q", got, tt.again, when)
					}
					time.Sleep(quiet/3 - time.Millisecond)
				}
				if len(d.calls) != calls {
					t.Errorf("asked meanwhile: %q", d.calls[calls:])
				}
				time.Sleep(time.Until(until))
				if got := says(b.probe(t, on("rack.a"))); got[0] != "yes" || len(d.calls) == calls {
					t.Errorf("%q after that time, and asked %q", got, d.calls[calls:])
				}
			})
		})
	}
}

// TestOtherFailuresAreNotRemembered checks that a dry run which fails for another reason than a
// missing answer is repeated at the next call.
func TestOtherFailuresAreNotRemembered(t *testing.T) {
	for _, tt := range []struct {
		rule string
		once func(*testing.T, *bench)
	}{
		{"the provider gives the reason for all", func(t *testing.T, b *bench) {
			b.doubles["rack"].whole = &provider.Error{Kind: provider.Forbidden, Msg: "not today"}
			b.probe(t, on("rack.a"))
		}},
		{"the provider refuses", func(t *testing.T, b *bench) {
			b.doubles["rack"].refuses = map[string]*provider.Error{"rack.a": {Kind: provider.Failed, Msg: "no power"}}
			b.probe(t, on("rack.a"))
		}},
		{"the caller goes", func(t *testing.T, b *bench) {
			b.doubles["rack"].breaks = map[string]error{"rack.a": errHangs}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(9*time.Second, cancel)
			b.Probe(ctx, on("rack.a"), nil, func(am.Sliver) bool { return false })
		}},
		{"the time is over soon after its turn", func(t *testing.T, b *bench) {
			b.doubles["rack"].breaks = map[string]error{"rack.a": errHangs}
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			defer cancel()
			b.Probe(ctx, on("rack.a"), nil, func(am.Sliver) bool { return false })
		}},
		{"it had no place", func(t *testing.T, b *bench) {
			b.doubles["rack"].whole = fmt.Errorf("set %w", provider.ErrNoPlace)
			b.probe(t, on("rack.a"))
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench("rack")
				tt.once(t, b)
				d := b.doubles["rack"]
				d.breaks, d.whole, d.refuses = nil, nil, nil
				if got := says(b.probe(t, on("rack.a"))); got[0] != "yes" {
					t.Errorf("%q, want yes", got)
				}
			})
		})
	}
}

func TestProbeWithoutATurnReportsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench("rack")
		b.line("rack").turn <- struct{}{}
		got := says(b.probe(t, on("rack.a")))
		if want := "8 its provider rack is busy with other requests; try again later"; got[0] != want || b.doubles["rack"].dryRuns() > 0 {
			t.Errorf("%q, want %q, and no dry run", got[0], want)
		}
		if len(b.Unanswering()) > 0 {
			t.Error("it counts against the component")
		}
	})
}
