package clock

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultJump is the default of Options.Jump.
	DefaultJump = time.Minute
	// bootPeriod is the time after a boot in which each change by a time service is trusted.
	bootPeriod = 15 * time.Minute
	// logInterval is the interval at which Run compares the clocks and logs a change.
	logInterval = time.Second
)

// Options are the settings of a Clock.
type Options struct {
	// Jump is the largest trusted change of the host's clock at once; 0 for DefaultJump.
	Jump time.Duration
	// Read returns the host's clock, and the time since the boot; nil for those of this host.
	Read func() (wall time.Time, steady time.Duration)
	// Synced reports whether a time service has synchronized the host's clock; nil asks the
	// kernel.
	Synced func() bool
}

// Clock provides the site's time. All methods may be called concurrently.
type Clock struct {
	opt Options

	mu     sync.Mutex // guards the fields below
	wall   time.Time  // the host's clock when it was trusted last
	steady time.Duration
	since  time.Time // the site's time at which the host's clock jumped; zero while it is trusted
}

// State is a reading of a Clock.
type State struct {
	Site  time.Time // the time that leases follow
	Host  time.Time // the host's clock
	Since time.Time // the site's time at which the host's clock jumped; zero while it is trusted
}

// Jumped reports whether the host's clock is not trusted.
func (s State) Jumped() bool { return !s.Since.IsZero() }

// New returns a Clock that trusts the host's clock as it is now.
func New(o Options) *Clock {
	o.Jump = cmp.Or(o.Jump, DefaultJump)
	if o.Read == nil {
		o.Read = read
	}
	if o.Synced == nil {
		o.Synced = synced
	}
	c := &Clock{opt: o}
	c.wall, c.steady = o.Read()
	return c
}

// Now returns the site's time.
func (c *Clock) Now() time.Time { return c.State().Site }

// State compares the clocks.
func (c *Clock) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compare()
}

// compare reads the clocks and returns the state. It trusts the host's clock, and then follows it,
// unless it differs too much from the steady one. The caller must hold mu.
func (c *Clock) compare() State {
	wall, steady := c.opt.Read()
	site := c.wall.Add(steady - c.steady)
	if wall.Sub(site).Abs() <= c.opt.Jump || steady < bootPeriod && c.opt.Synced() {
		c.wall, c.steady, c.since = wall, steady, time.Time{}
		return State{Site: wall, Host: wall}
	}
	if c.since.IsZero() {
		c.since = site
	}
	return State{Site: site, Host: wall, Since: c.since}
}

// Trust makes the host's clock the site's time. It returns the state before.
func (c *Clock) Trust() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.compare()
	c.wall, c.steady = c.opt.Read()
	c.since = time.Time{}
	return before
}

// Run logs jumps and their ends until ctx ends.
func (c *Clock) Run(ctx context.Context, log *slog.Logger) {
	t := time.NewTicker(logInterval)
	defer t.Stop()
	for jumped := false; ; {
		if s := c.State(); s.Jumped() && !jumped {
			log.Error("the host's clock was set, and is not trusted; leases follow the monotonic clock; correct the host's clock, or if it is right: patchbay reload", "site", s.Site, "host", s.Host, "since", s.Since)
			jumped = true
		} else if !s.Jumped() && jumped {
			log.Info("leases follow the host's clock again", "host", s.Host)
			jumped = false
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// read returns the host's clock and the time since the boot, with the time of suspension.
func read() (wall time.Time, steady time.Duration) {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // every kernel since 2.6.39 has it
	return time.Now().Round(0), time.Duration(t.Nano())
}

// synced asks the kernel. Setting the clock by hand clears the kernel's state.
func synced() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
