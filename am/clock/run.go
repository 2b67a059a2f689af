package clock

import (
	"context"
	"log/slog"
	"time"
)

const (
	// tick is how often the clocks are looked at where nobody asks.
	tick = time.Second
	// keep is how often they are written down.
	keep = time.Minute
	// remind is how often the log tells again of a doubt that an operator must end.
	remind = time.Hour
)

// Run looks at the clocks until ctx ends: it tells the log of doubts and of their
// end, and keeps the File.
func (c *Clock) Run(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	l := &logbook{log: c.opt.Log, unsaved: true}
	for {
		_, steady := c.opt.Host.Read()
		if l.tell(c.State(), steady) {
			l.unsaved = true
		}
		if l.unsaved || steady-l.saved >= keep {
			l.save(c, steady)
		}
		select {
		case <-ctx.Done():
			l.save(c, steady)
			return
		case <-c.changed:
			l.unsaved = true
		case <-t.C:
		}
	}
}

// logbook is what Run has told and written.
type logbook struct {
	log             *slog.Logger
	doubt           Doubt
	reminded, saved time.Duration // by the steady clock
	unsaved         bool
	failed          bool // the last time
}

// tell logs what has changed, and says whether anything has.
func (l *logbook) tell(s State, steady time.Duration) bool {
	changed := s.Doubt != l.doubt
	if !changed && (s.Doubt == NoDoubt || s.Doubt == Settling || steady-l.reminded < remind) {
		return false
	}
	l.doubt, l.reminded = s.Doubt, steady
	log := l.log.With("site", s.Site, "host", s.Host)
	switch s.Doubt {
	case NoDoubt:
		log.Info("leases count by the host's clock again")
	case Settling:
		log.Warn("the host has just booted, and no time service has set its clock yet; leases go on from the last known time until one has, two minutes at most")
	case Behind:
		log.Error("the host's clock is behind the last known time, so it is not believed; leases go on from there; set the clock right, or see: patchbay clock", "since", s.Since)
	default:
		log.Error("the host's clock was set, and is not believed; leases count by the time that has gone by; set the clock right, or see: patchbay clock", "since", s.Since)
	}
	return changed
}

// save writes the file, and logs if that fails, once.
func (l *logbook) save(c *Clock, steady time.Duration) {
	err := c.Save()
	if err != nil && !l.failed {
		l.log.Error("the clock's file was not written", "error", err)
	}
	l.saved, l.failed, l.unsaved = steady, err != nil, err != nil && l.unsaved
}
