package clock

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake is a host whose clocks a test sets.
type fake struct {
	boot   string
	wall   time.Time
	steady time.Duration
	synced bool
}

func (f *fake) host() Host {
	return Host{Boot: f.boot, Read: func() (time.Time, time.Duration) { return f.wall, f.steady }, Synced: func() bool { return f.synced }}
}

// passes lets time go by as both clocks see it.
func (f *fake) passes(d time.Duration) { f.wall, f.steady = f.wall.Add(d), f.steady+d }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func open(t *testing.T, f *fake, file string) *Clock {
	t.Helper()
	c, err := Open(Options{File: file, Log: quiet, Host: f.host()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// step is what happens next to a host, or to the clock.
type step func(*testing.T, *story)

// story is a site on a host: truth is the time as it really goes by.
type story struct {
	f     *fake
	c     *Clock
	file  string
	truth time.Time
}

func passes(d time.Duration) step {
	return func(_ *testing.T, s *story) { s.f.passes(d); s.truth = s.truth.Add(d) }
}

func set(d time.Duration) step {
	return func(_ *testing.T, s *story) { s.f.wall = s.f.wall.Add(d) }
}

func looked(t *testing.T, s *story) { s.c.Now() }

func vouched(_ *testing.T, s *story) { s.f.synced = true }

func killed(t *testing.T, s *story) { s.c = open(t, s.f, s.file) }

func saved(t *testing.T, s *story) {
	t.Helper()
	if err := s.c.Save(); err != nil {
		t.Fatal(err)
	}
}

func trusted(_ *testing.T, s *story) { s.c.Trust() }

// boots starts the host anew, off for down, with a clock that is wrong by error.
func boots(down, wrong time.Duration) step {
	return func(t *testing.T, s *story) {
		s.truth = s.truth.Add(down)
		s.f.boot += "'"
		s.f.wall, s.f.steady, s.f.synced = s.truth.Add(wrong), 10*time.Second, false
		s.c = open(t, s.f, s.file)
	}
}

// starts starts the site anew, later in the same boot.
func starts(t *testing.T, s *story) { s.c = open(t, s.f, s.file) }

// shows checks the site's time, as its distance from the truth.
func shows(off time.Duration, doubt Doubt) step {
	return func(t *testing.T, s *story) {
		t.Helper()
		x := s.c.State()
		if got := x.Site.Sub(s.truth); got != off || x.Doubt != doubt {
			t.Errorf("the site's time is off by %v with doubt %q, want %v and %q", got, x.Doubt, off, doubt)
		}
		if (x.Doubt == NoDoubt) != x.Since.IsZero() {
			t.Errorf("doubt %q since %v", x.Doubt, x.Since)
		}
		if now := s.c.Now(); !now.Equal(x.Site) {
			t.Errorf("Now is %v, the state says %v", now, x.Site)
		}
	}
}

const hour, year = time.Hour, 365 * 24 * time.Hour

func TestJumps(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		steps []step
	}{
		{"time that goes by is no jump", []step{passes(hour), shows(0, NoDoubt), passes(year), shows(0, NoDoubt)}},
		{"a small correction is followed, forward", []step{passes(hour), set(time.Minute), shows(time.Minute, NoDoubt)}},
		{"small corrections may add up", []step{set(50 * time.Second), looked, set(50 * time.Second), shows(100*time.Second, NoDoubt)}},
		{"a jump forward frees nothing early", []step{set(year), shows(0, Jumped), passes(hour), shows(0, Jumped)}},
		{"a jump back holds nothing for ever", []step{set(-year), shows(0, Jumped), passes(hour), shows(0, Jumped)}},
		{"a jump that is longer than a duration can be", []step{set(200 * year), set(200 * year), shows(0, Jumped)}},
		{"a clock that comes back ends the doubt", []step{set(year), looked, passes(hour), set(-year + time.Second), shows(time.Second, NoDoubt)}},
		{"a jump over the truth to the other side", []step{set(hour), looked, set(-2 * hour), shows(0, Jumped)}},
		{"an operator trusts the clock, forward", []step{set(hour), looked, trusted, shows(hour, NoDoubt), passes(hour), shows(hour, NoDoubt)}},
		{"after it was trusted, a jump counts again", []step{set(hour), looked, trusted, set(-hour), shows(hour, Jumped)}},

		{"a restart within a boot changes nothing", []step{saved, passes(hour), starts, shows(0, NoDoubt)}},
		{"a jump while down, forward", []step{saved, passes(hour), set(year), starts, shows(0, Jumped)}},
		{"a doubt lasts over a restart", []step{set(year), looked, saved, passes(hour), starts, shows(0, Jumped)}},
		{"a trusted clock stays trusted", []step{set(hour), looked, trusted, saved, passes(hour), starts, shows(hour, NoDoubt)}},
		{"killed after a jump that nobody wrote down", []step{saved, passes(30 * time.Second), set(year), looked, killed, shows(0, Jumped)}},

		{"a boot: the host's clock is taken", []step{saved, boots(hour, 0), passes(3 * time.Minute), shows(0, NoDoubt)}},
		{"a boot: nothing ends before a time service had time", []step{saved, boots(hour, 2*hour), shows(-hour, Booted), passes(20 * time.Second), set(-2 * hour), vouched, shows(0, NoDoubt)}},
		{"a boot without a time service: after two minutes the host's clock is taken", []step{
			saved, boots(hour, 0), passes(109 * time.Second), shows(-hour, Booted), passes(time.Second), shows(0, NoDoubt)}},
		{"waiting for a time service lasts over a restart", []step{saved, boots(hour, 0), saved, passes(time.Minute), starts, shows(-hour, Booted), passes(hour), starts, shows(0, NoDoubt)}},
		{"a dead battery: the last known time goes on", []step{saved, boots(hour, -5*year), shows(-hour, Booted), passes(hour), shows(-hour, Booted)}},
		{"a dead battery and a time service", []step{saved, boots(hour, -5*year), passes(20 * time.Second), set(5 * year), shows(-hour, Booted), vouched, shows(0, NoDoubt)}},
		{"a dead battery and a time service that tells the kernel nothing", []step{saved, boots(hour, -5*year), passes(20 * time.Second), set(5 * year), passes(2 * time.Minute), shows(0, NoDoubt)}},
		{"a dead battery, then trusted", []step{saved, boots(hour, -5*year), passes(hour), shows(-hour, Booted), trusted, shows(-5*year, NoDoubt)}},
		{"behind, killed, and a boot with a right clock", []step{saved, boots(hour, -5*year), saved, boots(hour, 0), vouched, shows(0, NoDoubt)}},
		{"settling, and corrected to before the last known time", []step{saved, boots(hour, 2*hour), set(-5 * hour), shows(-hour, Booted)}},
		{"a clock that jumped ahead and is still there after a boot", []step{set(year), looked, saved, boots(hour, year), passes(hour), shows(-hour, Jumped)}},
		{"… and is put right by a time service after the boot", []step{set(year), looked, saved, boots(hour, year), passes(time.Minute), set(-year), vouched, shows(0, NoDoubt)}},
		{"a jump in the first minutes is a time service's", []step{boots(0, hour), passes(5 * time.Minute), set(-hour), looked, passes(time.Second), vouched, shows(0, NoDoubt)}},
		{"a later jump is not trusted, whatever time service vouches", []step{vouched, passes(hour), set(hour), shows(0, Jumped)}},
		{"a jump in the first minutes by hand is not trusted", []step{boots(0, 0), passes(5 * time.Minute), set(hour), shows(0, Jumped), passes(hour), vouched, shows(0, Jumped)}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := &story{f: &fake{boot: "b", wall: noon, steady: hour}, file: filepath.Join(t.TempDir(), "clock.json"), truth: noon}
			s.c = open(t, s.f, s.file)
			for _, next := range tt.steps {
				next(t, s)
			}
		})
	}
}

func TestAHostWithoutBootIDStillHasItsTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock.json")
	f := &fake{wall: noon, steady: hour}
	if err := open(t, f, file).Save(); err != nil {
		t.Fatal(err)
	}
	f.passes(hour)
	f.wall = f.wall.Add(-year)
	if s := open(t, f, file).State(); s.Doubt != Booted || !s.Site.Equal(noon) {
		t.Errorf("%+v: it cannot know how long it was down, but not go back", s)
	}
}

func TestTrustReturnsBothStates(t *testing.T) {
	f := &fake{boot: "b", wall: noon, steady: hour}
	c := open(t, f, "")
	f.wall = noon.Add(year)
	before, now := c.Trust()
	if before.Ahead() != year || before.Doubt != Jumped || now.Ahead() != 0 || !now.Site.Equal(f.wall) {
		t.Errorf("%+v, %+v", before, now)
	}
}

func TestTheSystemsClocks(t *testing.T) {
	host, err := System()
	if err != nil {
		t.Fatal(err)
	}
	w1, s1 := host.Read()
	time.Sleep(time.Millisecond)
	w2, s2 := host.Read()
	if s2 <= s1 || s1 <= 0 || w1.IsZero() || w2.IsZero() {
		t.Errorf("%v %v, %v %v", w1, s1, w2, s2)
	}
	host.Synced() // whatever it says
	c, err := Open(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(c.Now()); d > time.Minute || d < -time.Minute {
		t.Errorf("a clock just opened is off by %v", d)
	}
}

// TestReasons goes through the doubts that end by themselves or not, in words and log.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		state       State
		reason, log string
	}{
		{State{Doubt: Jumped, Site: noon, Host: noon.Add(hour)}, "it was set", "was set, and is not trusted"},
		{State{Doubt: Booted, Site: noon, Host: noon.Add(-hour)}, "was behind the last known time", "level=ERROR"},
		{State{Doubt: Booted, Site: noon, Host: noon.Add(hour)}, "has just booted", "level=WARN"},
	} {
		var log bytes.Buffer
		(&Clock{opt: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}).log(tt.state)
		if got := tt.state.Reason(); !strings.Contains(got, tt.reason) || !strings.Contains(log.String(), tt.log) {
			t.Errorf("%+v: %s; the log says %s", tt.state, got, &log)
		}
	}
}
