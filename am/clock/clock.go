package clock

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"
)

// Doubt says why the host's clock is not believed.
type Doubt string

const (
	// NoDoubt: the site's time is the host's.
	NoDoubt Doubt = ""
	// Jumped: it was set while the host ran.
	Jumped Doubt = "jumped"
	// Booted: after a boot it is before the last known time, or a time service may
	// still correct it.
	Booted Doubt = "booted"
)

const (
	// DefaultJump is how far the host's clock may be moved at once.
	DefaultJump = time.Minute
	// settled is how long after a boot nobody waits for a time service any more.
	settled = 2 * time.Minute
	// early is how long after a boot a time service is believed.
	early = 15 * time.Minute
)

// Options are those of a Clock.
type Options struct {
	// File keeps what is known over a restart; "" for nothing.
	File string
	// Jump is how far the host's clock may be moved at once, DefaultJump when 0.
	Jump time.Duration
	// Log is slog.Default when nil.
	Log *slog.Logger
	// Host is System's when its Read is nil.
	Host Host
}

// Clock tells the site's time. All methods may be called at the same time.
type Clock struct {
	opt     Options
	changed chan struct{} // holds one when Run has something to keep
	saving  sync.Mutex    // one writes the file at a time

	mu     sync.Mutex // guards what follows
	site   time.Time  // the site's time when the steady clock was at steady
	steady time.Duration
	doubt  Doubt
	since  time.Time // the site's time when doubt began
	lost   string    // why the file was of no use
}

// State is what a Clock shows.
type State struct {
	// Site is the time by which leases count, Host that of the host's clock.
	Site, Host time.Time
	// Doubt is NoDoubt if they are the same; else it began at Since, by the site's time.
	Doubt Doubt
	Since time.Time
	// Lost says why what was known of the time before could not be read, so that the
	// host's clock was taken; "" if it could, and after Believe.
	Lost string
}

// Ahead is how far the host's clock is ahead of the site's time; negative behind.
func (s State) Ahead() time.Duration { return s.Host.Sub(s.Site) }

// IsSettling tells whether the doubt ends by itself, soon after a boot.
func (s State) IsSettling() bool { return s.Doubt == Booted && s.Ahead() >= 0 }

// Reason says in words why there is a doubt.
func (s State) Reason() string {
	switch {
	case s.IsSettling():
		return "the host has just booted, and no time service has set it yet"
	case s.Doubt == Booted:
		return "after a boot it was behind the last known time"
	}
	return "it was set, and not by the time that has gone by"
}

// Open makes a Clock that goes on from what its file says. If the file is missing or
// broken, it takes the host's clock, and logs an error for a broken one. Open fails on
// a host without a steady clock, or if the file cannot be opened.
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
		o.Log.Error("what was known of the time is lost, so the host's clock is believed; see that it is right", "error", broken)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	wall, steady := o.Host.Read()
	switch {
	case err != nil:
		c.follow(wall, steady)
	case before.Boot == o.Host.Boot && before.Boot != "" && before.Steady <= steady:
		c.site, c.steady, c.doubt, c.since = before.Site, before.Steady, before.Doubt, before.Since
	default:
		c.boot(before, wall, steady)
	}
	c.look(wall, steady)
	return c, nil
}

// boot goes on from the last known time after a boot. How long the host was down is
// not known. A clock that had jumped ahead, and still is there, stays in doubt.
func (c *Clock) boot(before record, wall time.Time, steady time.Duration) {
	c.site, c.steady, c.doubt, c.since = before.Site, steady, Booted, before.Site
	if before.Doubt == Jumped && before.Host.After(before.Site) && !wall.Before(before.Host) {
		c.doubt, c.since = Jumped, before.Since
	}
}

// Now is the site's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look(c.opt.Host.Read())
}

// State shows both clocks.
func (c *Clock) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, steady := c.opt.Host.Read()
	return c.state(wall, steady)
}

// state is what the clock shows for a reading. The caller has mu.
func (c *Clock) state(wall time.Time, steady time.Duration) State {
	site := c.look(wall, steady)
	return State{Site: site, Host: wall, Doubt: c.doubt, Since: c.since, Lost: c.lost}
}

// Believe takes the host's clock, whatever it shows, and gives what was before and
// what is.
func (c *Clock) Believe() (before, now State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, steady := c.opt.Host.Read()
	before = c.state(wall, steady)
	c.follow(wall, steady)
	c.lost = ""
	c.poke()
	return before, State{Site: wall, Host: wall}
}

// look gives the site's time for a reading. The caller has mu.
func (c *Clock) look(wall time.Time, steady time.Duration) time.Time {
	site := c.site.Add(steady - c.steady)
	ahead := wall.Sub(site)
	if (ahead > c.opt.Jump || ahead < -c.opt.Jump) && !c.believed(ahead, steady) {
		if c.doubt == NoDoubt {
			c.site, c.steady, c.doubt, c.since = site, steady, Jumped, site
			c.poke()
		}
		return site
	}
	if c.doubt != NoDoubt {
		c.poke()
	}
	c.follow(wall, steady)
	return wall
}

// believed tells whether a host's clock that is far ahead of the site's time, or
// behind it, is taken all the same.
func (c *Clock) believed(ahead, steady time.Duration) bool {
	if c.doubt == Booted {
		return ahead > 0 && (steady >= settled || c.opt.Host.Synced())
	}
	return steady < early && c.opt.Host.Synced()
}

func (c *Clock) follow(wall time.Time, steady time.Duration) {
	c.site, c.steady, c.doubt, c.since = wall, steady, NoDoubt, time.Time{}
}

func (c *Clock) poke() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
