package server

import (
	"sync"
	"time"
)

// Bounds on lines about what clients do.
const (
	// seldomPause is the time between two lines about the same thing.
	seldomPause = time.Minute
	// seldomSources is how many sources have lines of their own, for each kind.
	seldomSources = 64
	// seldomTick is how often a server looks for lines whose time has come.
	seldomTick = 10 * time.Second
)

// otherSources stands for the sources beyond seldomSources.
const otherSources = "others"

// seldom writes one line for many events, as it is up to clients how often these
// happen: the first event of a kind and source has a line at once, the next ones
// share one a minute, which counts them. The zero value is ready.
type seldom struct {
	mu    sync.Mutex
	kinds map[string]map[string]*counted // by kind, then by source
}

// counted are the events of one kind and source.
type counted struct {
	last  time.Time // when a line was written
	times int       // events that no line counts yet
	line  func(source string, times int)
}

// count counts an event. Of those that share a line, the line of the latest is
// written. count calls line before it returns if it is to be written at once.
func (s *seldom) count(kind, source string, line func(source string, times int)) {
	s.mu.Lock()
	if s.kinds == nil {
		s.kinds = make(map[string]map[string]*counted)
	}
	sources := s.kinds[kind]
	if sources == nil {
		sources = make(map[string]*counted)
		s.kinds[kind] = sources
	}
	if sources[source] == nil && len(sources) >= seldomSources {
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

// due takes the line that is to be written now; nil if there is none.
func (c *counted) due(source string, now time.Time, atOnce bool) func() {
	if c.times == 0 || !atOnce && !c.last.IsZero() && now.Sub(c.last) < seldomPause {
		return nil
	}
	line, times := c.line, c.times
	c.last, c.times, c.line = now, 0, nil
	return func() { line(source, times) }
}

// flush writes the lines whose time has come, or all that are left, and forgets
// the sources of which nothing was counted for a pause.
func (s *seldom) flush(all bool) {
	now := time.Now()
	var lines []func()
	s.mu.Lock()
	for _, sources := range s.kinds {
		for source, c := range sources {
			if write := c.due(source, now, all); write != nil {
				lines = append(lines, write)
			} else if c.times == 0 && now.Sub(c.last) >= seldomPause {
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
func (s *seldom) run(done <-chan struct{}) {
	t := time.NewTicker(seldomTick)
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
