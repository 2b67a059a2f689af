package server

import (
	"sync"
	"time"
)

// Limits of log lines that clients cause.
const (
	// throttlePause is the time between two lines of one kind and source.
	throttlePause = time.Minute
	// throttleSources is the maximum number of sources with lines of their own, for each kind.
	throttleSources = 64
	// throttleTick is the interval at which a server writes the lines that are due.
	throttleTick = 10 * time.Second
)

// otherSources is the common name of all sources above throttleSources.
const otherSources = "others"

// logThrottle limits the log lines about events that clients can cause at any rate. It logs the
// first event of a kind and source at once. Further events of that kind and source within a
// minute share one line, which has their number. The zero value is ready for use.
type logThrottle struct {
	mu    sync.Mutex
	kinds map[string]map[string]*counted // by kind, then by source
}

// counted counts the events of one kind and source.
type counted struct {
	last  time.Time // when the last line was written
	times int       // events not logged yet
	line  func(source string, times int)
}

// count counts an event and calls line to log it, at once or later. times is the number of events
// that share the line. Only the function line of the latest of these events is called.
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

// due resets c and returns a function that writes the line of c. If c has no event to log, it
// returns nil and does not reset c. If the last line was less than throttlePause ago, it does the
// same, unless atOnce is true.
func (c *counted) due(source string, now time.Time, atOnce bool) func() {
	if c.times == 0 || !atOnce && !c.last.IsZero() && now.Sub(c.last) < throttlePause {
		return nil
	}
	line, times := c.line, c.times
	c.last, c.times, c.line = now, 0, nil
	return func() { line(source, times) }
}

// flush writes the lines that are due. If force is true, it also writes the lines with events
// that are not due yet. It removes the sources that had no event for throttlePause.
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

// run calls flush every throttleTick until stop is closed.
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
