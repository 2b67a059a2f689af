package work

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// silence returns what the runner reports about its one provider.
func (e *env) silence() (since time.Time, silent bool) {
	e.t.Helper()
	all := e.r.Polled()
	if len(all) != 1 || all[0].Provider != "double" {
		e.t.Fatalf("polled %v", all)
	}
	return all[0].Answered, all[0].Silent
}

// TestIdleProvidersArePolled checks that a provider without slivers which dies or hangs
// is reported as silent within a minute, and as answering again when it works.
func TestIdleProvidersArePolled(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trouble func(d *double, on bool)
		err     string
		logged  string
	}{
		{"Dies", func(d *double, on bool) {
			if d.breaks = nil; on {
				d.breaks = &provider.Error{Msg: "the log says why", Err: errors.New("the rack is off")}
			}
		}, "the log says why", `error="the rack is off"`},
		{"Hangs", func(d *double, on bool) { d.getHangs[pollName] = on }, "", `error="none of its calls has ended yet"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var log strings.Builder
				e.log = slog.New(slog.NewTextHandler(&log, nil))
				e.start()
				time.Sleep(5 * time.Minute)
				if since, silent := e.silence(); silent || time.Since(since) > 15*time.Second {
					t.Fatalf("a working provider last answered %v ago, silent %v", time.Since(since), silent)
				}
				e.d.with(func() { tt.trouble(e.d, true) })
				died := time.Now()
				e.within(time.Minute, "it is silent", func() bool { _, silent := e.silence(); return silent })
				if since, _ := e.silence(); since.After(died) || died.Sub(since) > 15*time.Second {
					t.Errorf("silent since %v, it died at %v", since, died)
				}
				time.Sleep(10 * time.Minute)
				if since, silent := e.r.Silent("double"); !silent || since.After(died) {
					t.Errorf("of it alone: silent %v since %v", silent, since)
				}
				if err := e.r.Polled()[0].Err; tt.err != "" && (err == nil || err.Error() != tt.err) {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				e.d.with(func() { tt.trouble(e.d, false) })
				e.within(time.Minute, "it is back", func() bool { _, silent := e.silence(); return !silent })
				e.stop()
				for _, line := range []string{"a provider does not answer", "a provider answers again", tt.logged} {
					if n := strings.Count(log.String(), line); n != 1 {
						t.Errorf("%d lines %q", n, line)
					}
				}
			})
		})
	}
}

// TestASlowProviderIsNotSilent has gets that take almost a minute.
func TestASlowProviderIsNotSilent(t *testing.T) {
	for _, think := range []time.Duration{20 * time.Second, 40 * time.Second, 59 * time.Second} {
		t.Run(fmt.Sprint(think), func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.think = think
				e.start()
				time.Sleep(time.Minute)
				for range 600 {
					time.Sleep(time.Second)
					if _, silent := e.silence(); silent {
						t.Fatal("it is called silent")
					}
				}
			})
		})
	}
}

func TestAProviderThatCannotBeUsedIsSilent(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.providers = func(string) (Provider, error) { return nil, errors.New("no such file") }
		e.start()
		time.Sleep(time.Second)
		e.within(time.Minute, "it is silent", func() bool { _, silent := e.silence(); return silent })
		if err := e.r.Polled()[0].Err; err == nil || err.Error() != "no such file" {
			t.Errorf("error %v", err)
		}
	})
}
