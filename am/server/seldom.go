package server

import (
	"sync"
	"time"
)

// seldomPause is the time between two lines about the same thing.
const seldomPause = 10 * time.Second

// seldom lets a line about one thing into the log once in a while: how often
// it happens is up to clients. The zero value is ready.
type seldom struct {
	mu    sync.Mutex
	about map[string]*told
}

type told struct {
	last  time.Time
	times int // since then
}

// may tells whether to write about what now, and how often it has happened
// since the last time, this one included. There are few whats.
func (s *seldom) may(what string) (times int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.about == nil {
		s.about = make(map[string]*told)
	}
	t := s.about[what]
	if t == nil {
		t = new(told)
		s.about[what] = t
	}
	t.times++
	now := time.Now()
	if !t.last.IsZero() && now.Sub(t.last) < seldomPause {
		return 0, false
	}
	times, t.times, t.last = t.times, 0, now
	return times, true
}
