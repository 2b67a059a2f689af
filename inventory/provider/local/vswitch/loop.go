package vswitch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// loop forwards the frames of some links. Its epoll waits for all devices and for the time of
// the next frame. The Go runtime's poller is not used: two flooding ports delayed its timers by
// up to 10 ms, and each port would need a goroutine.
type loop struct {
	epoll, timer, bell int // descriptors; bell wakes the loop for jobs
	start              time.Time

	mu   sync.Mutex
	jobs []func() // functions for the loop to run

	// Used only by the loop's goroutine.
	schedule schedule
	pool     chunkPool
	devices  map[int32]*device
	paused   []*device
	buffer   []byte
	armed    int64 // when the timer fires; 0: it is off
	writes   int   // frames written since the start
}

// idle is the time without frames after which memory is released.
const idle = 2 * time.Second

// newLoop creates a loop, which serve runs. The parameter r is the memory budget for waiting frames.
func newLoop(r *memoryBudget) (l *loop, err error) {
	l = &loop{epoll: -1, timer: -1, bell: -1, start: time.Now(), pool: chunkPool{room: r},
		devices: make(map[int32]*device), buffer: make([]byte, bufferSize)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot make an epoll: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("cannot make a timer: %w", err)
	}
	if l.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("cannot make an eventfd: %w", err)
	}
	// Edge-triggered: each timer setting and each write to bell is one event, and nothing
	// needs to be read.
	for _, fd := range []int{l.timer, l.bell} {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return nil, fmt.Errorf("cannot wait for a timer: %w", err)
		}
	}
	return l, nil
}

func (l *loop) close() {
	for _, fd := range []int{l.epoll, l.timer, l.bell} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (l *loop) now() int64 { return int64(time.Since(l.start)) }

func (l *loop) newLAN() *lan {
	return &lan{table: newTable(), schedule: &l.schedule, draw: rand.Float64, send: l.write}
}

// run runs f in the loop's goroutine and waits for the end of f.
func (l *loop) run(f func()) {
	done := make(chan struct{})
	l.mu.Lock()
	l.jobs = append(l.jobs, func() { f(); close(done) })
	l.mu.Unlock()
	// The write cannot fail: bell is open, and its counter does not overflow.
	_, _ = unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-done
}

func (l *loop) runJobs() {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	l.mu.Unlock()
	for _, f := range jobs {
		f()
	}
}

// serve forwards frames, sends delayed ones when they are due, and runs jobs. It returns only on an error.
func (l *loop) serve() error {
	events := make([]unix.EpollEvent, 128)
	for {
		wait := l.arm()
		n, err := unix.EpollWait(l.epoll, events, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("cannot wait for frames: %w", err)
		case n == 0 && wait > 0 && len(l.schedule.paths) == 0:
			l.pool.trim()
		}
		l.sendDue()
		for _, e := range events[:n] {
			switch int(e.Fd) {
			case l.timer:
				l.armed = 0
			case l.bell:
				l.runJobs() // may close devices that also have events
			default:
				if d := l.devices[e.Fd]; d != nil && d.polled {
					l.read(d, e.Events)
					l.sendDue()
				}
			}
		}
		if len(l.paused) > 0 {
			l.resumeDevices()
		}
	}
}

// sendDue transmits frames that are due, at most twice as many as a device's turn allows.
func (l *loop) sendDue() {
	bytes, before := 0, l.writes
	for n := 0; n < 2*turnReads && bytes < 2*turnBytes && l.writes-before < 2*turnWrites; n++ {
		due, ok := l.schedule.due()
		if !ok || due > l.now() {
			return
		}
		p := l.schedule.paths[0]
		bytes += len(p.queue.peek().frame)
		p.lan.sendFirst(p)
	}
}

// arm sets the timer to the time when the next frame is due. It returns how many milliseconds the loop may
// wait for an event: -1 for no limit, and 0 if a frame is due already.
func (l *loop) arm() int {
	wait := -1
	due, ok := l.schedule.due()
	switch {
	case ok && due != l.armed:
		left := due - l.now()
		if left <= 0 {
			return 0
		}
		when := unix.ItimerSpec{Value: unix.NsecToTimespec(left)}
		if unix.TimerfdSettime(l.timer, 0, &when, nil) != nil {
			return 1 // without a timer, frames are up to 1 ms late
		}
		l.armed = due
	case !ok && l.pool.kept > 0:
		wait = int(idle / time.Millisecond)
	}
	if len(l.paused) > 0 { // a pause ends before the loop is idle
		wait = int(firstRest / int64(time.Millisecond))
	}
	return wait
}
