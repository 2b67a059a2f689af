package clock

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"
)

// Doubt is the reason why the host's clock is not trusted.
type Doubt string

const (
	// NoDoubt means that the site's time follows the host's clock.
	NoDoubt Doubt = ""
	// Jumped means that the host's clock was set while the host ran.
	Jumped Doubt = "jumped"
	// Booted means that, after a boot, the host's clock is before the last known time, or
	// that a time service may still correct it.
	Booted Doubt = "booted"
)

const (
	// DefaultJump is the default of Options.Jump.
	DefaultJump = time.Minute
	// settleTime is the maximum time after a boot that the clock waits for a time service.
	settleTime = 2 * time.Minute
	// bootPeriod is the time after a boot in which each change by a time service is
	// trusted.
	bootPeriod = 15 * time.Minute
)

// Options are the settings of a Clock.
type Options struct {
	// File is the file that keeps the state over a restart; "" for none.
	File string
	// Jump is the largest trusted change of the host's clock at once; 0 for DefaultJump.
	Jump time.Duration
	// Log receives doubts and errors; nil is slog.Default.
	Log *slog.Logger
	// Host provides the clocks; if its Read is nil, the host of System is used.
	Host Host
}

// Clock provides the site's time. All methods may be called concurrently.
type Clock struct {
	opt     Options
	changed chan struct{} // holds one element if Run must save the file
	saving  sync.Mutex    // held while the file is written

	mu     sync.Mutex // guards the fields below
	site   time.Time  // the site's time when the steady clock was at steady
	steady time.Duration
	doubt  Doubt
	since  time.Time // the site's time when doubt began
	lost   string    // see State.Lost
}

// State is a reading of a Clock.
type State struct {
	// Site is the time that leases follow; Host is the time of the host's clock.
	Site, Host time.Time
	// Doubt is NoDoubt if Site and Host are the same. Otherwise it is the reason for the
	// difference, and Since is the site's time at which the doubt began.
	Doubt Doubt
	Since time.Time
	// Lost is the reason why the saved state could not be read. Then the site's time began
	// with the host's clock. Lost is "" if the state could be read, and after Trust.
	Lost string
}

// Ahead returns how far the host's clock is ahead of the site's time; negative if it is
// behind.
func (s State) Ahead() time.Duration { return s.Host.Sub(s.Site) }

// IsSettling reports whether the clock is in doubt only because the host was booted a short
// time ago. Such a doubt ends automatically.
func (s State) IsSettling() bool { return s.Doubt == Booted && s.Ahead() >= 0 }

// Reason describes the reason for the doubt.
func (s State) Reason() string {
	switch {
	case s.IsSettling():
		return "the host has just booted, and no time service has set it yet"
	case s.Doubt == Booted:
		return "after a boot it was behind the last known time"
	}
	return "it was set to a time that does not fit the time that has passed"
}

// Open returns a Clock that continues from the time in its file. If the file is missing
// or broken, the Clock begins with the host's time; Open logs a broken file as an error. Open
// fails on a host without a steady clock, or if the file cannot be opened.
func Open(o Options) (*Clock, error) {
	o.Jump = cmp.Or(o.Jump, DefaultJump)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Host.Read == nil {
		host, err := System()
		if err != nil {
			return nil, err
		}
		o.Host = host
	}
	c := &Clock{opt: o, changed: make(chan struct{}, 1)}
	before, err := load(o.File)
	if broken, ok := errors.AsType[*brokenError](err); ok {
		c.lost = broken.Error()
		o.Log.Error("the stored time is lost, so the host's clock is trusted; check that this clock is right", "error", broken)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	wall, steady := o.Host.Read()
	switch {
	case err != nil:
		c.setToHost(wall, steady)
	case before.Boot == o.Host.Boot && before.Boot != "" && before.Steady <= steady:
		c.site, c.steady, c.doubt, c.since = before.Site, before.Steady, before.Doubt, before.Since
	default:
		c.boot(before, wall, steady)
	}
	c.advance(wall, steady)
	return c, nil
}

// boot sets the state after a boot of the host. The site's time continues from the saved
// time, because the downtime of the host is unknown. The doubt is Booted, which can end
// automatically. If the host's clock had jumped ahead before the boot, and is still ahead, the
// doubt stays Jumped.
func (c *Clock) boot(saved record, wall time.Time, steady time.Duration) {
	c.site, c.steady, c.doubt, c.since = saved.Site, steady, Booted, saved.Site
	if saved.Doubt == Jumped && saved.Host.After(saved.Site) && !wall.Before(saved.Host) {
		c.doubt, c.since = Jumped, saved.Since
	}
}

// Now returns the site's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.advance(c.opt.Host.Read())
}

// State returns the readings of both clocks, and the doubt.
func (c *Clock) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, steady := c.opt.Host.Read()
	return c.state(wall, steady)
}

// state requires that the caller holds mu.
func (c *Clock) state(wall time.Time, steady time.Duration) State {
	site := c.advance(wall, steady)
	return State{Site: site, Host: wall, Doubt: c.doubt, Since: c.since, Lost: c.lost}
}

// Trust ends any doubt: it sets the site's time to the host's clock. It returns the previous
// and the current state.
func (c *Clock) Trust() (previous, current State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, steady := c.opt.Host.Read()
	previous = c.state(wall, steady)
	c.setToHost(wall, steady)
	c.lost = ""
	c.wake()
	return previous, State{Site: wall, Host: wall}
}

// advance begins or ends a doubt if necessary. The caller holds mu.
func (c *Clock) advance(wall time.Time, steady time.Duration) time.Time {
	site := c.site.Add(steady - c.steady)
	ahead := wall.Sub(site)
	if (ahead > c.opt.Jump || ahead < -c.opt.Jump) && !c.isTrusted(ahead, steady) {
		if c.doubt == NoDoubt {
			c.site, c.steady, c.doubt, c.since = site, steady, Jumped, site
			c.wake()
		}
		return site
	}
	if c.doubt != NoDoubt {
		c.wake()
	}
	c.setToHost(wall, steady)
	return wall
}

// isTrusted reports whether the host's clock is trusted although it differs from the site's
// time by more than Options.Jump. ahead is the difference; steady is the time since the boot.
func (c *Clock) isTrusted(ahead, steady time.Duration) bool {
	if c.doubt == Booted {
		return ahead > 0 && (steady >= settleTime || c.opt.Host.Synced())
	}
	return steady < bootPeriod && c.opt.Host.Synced()
}

func (c *Clock) setToHost(wall time.Time, steady time.Duration) {
	c.site, c.steady, c.doubt, c.since = wall, steady, NoDoubt, time.Time{}
}

func (c *Clock) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
