package clock

import (
	"context"
	"time"
)

const (
	// checkInterval is the interval at which Run compares the clocks.
	checkInterval = time.Second
	// saveInterval is the interval at which Run saves the file.
	saveInterval = time.Minute
	// reminderInterval is the interval at which Run repeats the log line about a doubt that
	// an operator must end.
	reminderInterval = time.Hour
)

// Run checks the clocks until ctx ends: it logs doubts and their end, and saves the
// file. It removes temporary files that killed programs have left.
func (c *Clock) Run(ctx context.Context) {
	c.removeUnfinished()
	t := time.NewTicker(checkInterval)
	defer t.Stop()
	var logged State
	var reminded, saved time.Duration // the steady clock when the doubt was last logged, and when the file was last saved
	unsaved, failed := true, false
	save := func(steady time.Duration) {
		err := c.Save()
		if err != nil && !failed {
			c.opt.Log.Error("the clock's file was not written", "error", err)
		}
		saved, failed, unsaved = steady, err != nil, err != nil && unsaved
	}
	for {
		_, steady := c.opt.Host.Read()
		s := c.State()
		changed := s.Doubt != logged.Doubt || s.IsSettling() != logged.IsSettling()
		if changed || s.Doubt != NoDoubt && !s.IsSettling() && steady-reminded >= reminderInterval {
			c.log(s)
			logged, reminded = s, steady
		}
		unsaved = unsaved || changed
		if unsaved || steady-saved >= saveInterval {
			save(steady)
		}
		select {
		case <-ctx.Done():
			save(steady)
			return
		case <-c.changed:
			unsaved = true
		case <-t.C:
		}
	}
}

func (c *Clock) log(s State) {
	log := c.opt.Log.With("site", s.Site, "host", s.Host)
	switch {
	case s.Doubt == NoDoubt:
		log.Info("leases follow the host's clock again")
	case s.IsSettling():
		log.Warn("the host has just booted, and no time service has set its clock yet; leases continue from the last known time until a time service sets the clock, for two minutes at most")
	case s.Doubt == Booted:
		log.Error("the host's clock is behind the last known time, so it is not trusted; leases continue from the last known time; set the clock right, or see: patchbay clock", "since", s.Since)
	default:
		log.Error("the host's clock was set, and is not trusted; leases follow the steady clock; set the clock right, or see: patchbay clock", "since", s.Since)
	}
}
