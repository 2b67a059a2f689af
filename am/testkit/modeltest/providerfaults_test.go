package modeltest

import (
	"errors"
	"math/rand/v2"
	"time"
)

// wait lets a random duration pass.
func (l *run) wait() {
	d, _ := time.ParseDuration(l.pick("20ms", "1s", "5s", "5s", "30s", "30s", "2m", "2m", "4m", "12m", "50m"))
	d += time.Duration(l.rand.IntN(1000)) * time.Millisecond
	l.logf("%v pass", d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.site.died:
	}
}

// setProviderFaults sets how the providers behave from now on.
func (l *run) setProviderFaults() {
	var list []behaviour
	rate := []int{0, 0, 20, 50, 90}[l.rand.IntN(5)]
	for c := slow; c < behaviours; c++ {
		if l.rand.IntN(3) == 0 {
			list = append(list, c)
		}
	}
	if l.rand.IntN(3) == 0 { // late answers are tested more often than other faults
		list = append(list, slowly, slowly, slowly)
	}
	for name, r := range l.providers {
		own := rand.New(rand.NewPCG(l.rand.Uint64(), 1))
		r.with(func() {
			r.behaviour = func(n int, action string, names []string) behaviour {
				if len(list) == 0 || own.IntN(100) >= rate {
					return succeeds
				}
				c := list[own.IntN(len(list))]
				return c
			}
		})
		if l.rand.IntN(2) == 0 {
			l.logf("%s: %d%% of %v", name, rate, list)
			break
		}
		l.logf("%s: %d%% of %v", name, rate, list)
	}
}

var errDisk = errors.New("no space left on device")

// fullDisk makes some writes of the store fail.
func (l *run) fullDisk() {
	left := 1 + l.rand.IntN(4)
	l.logf("the disk is full for %d writes", left)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = func(int) error {
		if left--; left < 0 {
			return nil
		}
		l.full.Add(1)
		l.stuck.Store(time.Now().Unix())
		return errDisk
	}
}

// scheduleCrash makes the process end at one of the next writes, before or after it.
func (l *run) scheduleCrash() {
	left, after := 1+l.rand.IntN(6), l.rand.IntN(2) == 0
	l.logf("it will die at write %d, after it: %v", left, after)
	s := l.site
	die := func() bool {
		if left--; left == 0 {
			s.die()
		}
		return left == 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if after {
		l.before, l.after = nil, func(int) { die() }
	} else {
		l.after, l.before = nil, func(int) error { die(); return nil }
	}
}
