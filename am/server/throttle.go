package server

import (
	"sync"
	"time"
)

const (
	throttlePause = time.Minute
	// throttleSources is the maximum number of sources with their own lines, for each kind.
	throttleSources = 64
	throttleTick    = 10 * time.Second
)

// otherSources stands for all sources above throttleSources.
const otherSources = "others"

// logThrottle limits the log lines about events that clients can cause at any rate. It logs the
// first event of a kind and source at once. Further such events within a minute share one line
// with their number. The zero value is ready for use.
type logThrottle struct {
	mu    sync.Mutex
	kinds map[string]map[string]*counted // by kind, then by source
}

type counted struct {
	last  time.Time // when the last line was written
	times int       // events not logged yet
	line  func(source string, times int)
}

// count calls line to log an event, at once or later. times is the number of events that share
// the log line. Only the function line of the latest of these events is called.
func (s *logThrottle) count(kind, source string, line func(source string, times int)) {
	s.mu.Lock()
	if s.kinds == nil {
		s.kinds = make(map[string]map[string]*counted)
	}
	sources := s.kinds[kind]
	if sources == nil {
		sources = make(map[string]*counted)
		s.kinds[kind] = sources
	}
	if sources[source] == nil && len(sources) >= throttleSources {
		source = otherSources
	}
	c := sources[source]
	if c == nil {
		c = new(counted)
		sources[source] = c
	}
	c.times++
	c.line = line
	write := c.due(source, time.Now(), false)
	s.mu.Unlock()
	if write != nil {
		write()
	}
}

// due returns a function that writes the line of c, and resets c. If no line is due, it returns
// nil and does not reset c. atOnce ignores throttlePause.
func (c *counted) due(source string, now time.Time, atOnce bool) func() {
	if c.times == 0 || !atOnce && !c.last.IsZero() && now.Sub(c.last) < throttlePause {
		return nil
	}
	line, times := c.line, c.times
	c.last, c.times, c.line = now, 0, nil
	return func() { line(source, times) }
}

// flush writes the lines that are due. If force is true, it also writes lines that are not due
// yet. It removes the sources that had no event for throttlePause.
func (s *logThrottle) flush(force bool) {
	now := time.Now()
	var lines []func()
	s.mu.Lock()
	for _, sources := range s.kinds {
		for source, c := range sources {
			if write := c.due(source, now, force); write != nil {
				lines = append(lines, write)
			} else if c.times == 0 && now.Sub(c.last) >= throttlePause {
				delete(sources, source)
			}
		}
	}
	s.mu.Unlock()
	for _, write := range lines {
		write()
	}
}

func (s *logThrottle) run(stop <-chan struct{}) {
	t := time.NewTicker(throttleTick)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			s.flush(false)
		}
	}
}
