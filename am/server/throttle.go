package server

import (
	"sync"
	"time"
)

// Limits of log lines that clients cause.
const (
	// throttlePause is the time between two lines of one kind and source.
	throttlePause = time.Minute
	// throttleSources is the number of sources with lines of their own, for each kind.
	throttleSources = 64
	// throttleTick is the interval at which a server writes due lines.
	throttleTick = 10 * time.Second
)

// otherSources stands for the sources beyond throttleSources.
const otherSources = "others"

// logThrottle limits the log lines about events that clients cause as often as they like.
// The first event of a kind and source is logged at once; further ones share a line each
// minute, which counts them. The zero value is ready.
type logThrottle struct {
	mu    sync.Mutex
	kinds map[string]map[string]*counted // by kind, then by source
}

// counted are the events of one kind and source.
type counted struct {
	last  time.Time // when a line was written
	times int       // events not logged yet
	line  func(source string, times int)
}

// count counts an event and calls line to log it, at once or later. Events that share a
// line are logged by the line function of the latest.
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

// due returns the function that writes the line that is due now, and resets c; nil if no
// line is due.
func (c *counted) due(source string, now time.Time, atOnce bool) func() {
	if c.times == 0 || !atOnce && !c.last.IsZero() && now.Sub(c.last) < throttlePause {
		return nil
	}
	line, times := c.line, c.times
	c.last, c.times, c.line = now, 0, nil
	return func() { line(source, times) }
}

// flush writes the lines that are due, or all of them, and removes the sources without
// an event for throttlePause.
func (s *logThrottle) flush(all bool) {
	now := time.Now()
	var lines []func()
	s.mu.Lock()
	for _, sources := range s.kinds {
		for source, c := range sources {
			if write := c.due(source, now, all); write != nil {
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

// run flushes until done is closed.
func (s *logThrottle) run(done <-chan struct{}) {
	t := time.NewTicker(throttleTick)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			s.flush(false)
		}
	}
}
