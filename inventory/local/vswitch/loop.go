package vswitch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// loop carries the frames of some links: it waits for all their devices and for
// the time at once, in an epoll of its own. Through the Go runtime's, two ports
// that flood would hold up all timers by up to 10 ms, and each port would cost a
// goroutine.
type loop struct {
	epoll, timer, bell int
	start              time.Time

	mu   sync.Mutex
	jobs []func() // to be done by the loop

	// What only the loop touches.
	schedule schedule
	stock    stock
	devices  map[int32]*device
	resting  []*device
	buffer   []byte
	armed    int64 // when the timer rings; 0: it does not
	writes   int   // so far
}

// idle is after what time without frames memory is given back.
const idle = 2 * time.Second

func newLoop(r *room) (l *loop, err error) {
	l = &loop{epoll: -1, timer: -1, bell: -1, start: time.Now(), stock: stock{room: r},
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
	// By edges: each setting of the timer, each ring of the bell is one event,
	// and nothing needs to be read.
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

// now is the time since the loop was made.
func (l *loop) now() int64 { return int64(time.Since(l.start)) }

// newLAN makes a link without ports.
func (l *loop) newLAN() *lan {
	return &lan{table: newTable(), schedule: &l.schedule, draw: rand.Float64, send: l.write}
}

// do has f done by the loop, and waits for it.
func (l *loop) do(f func()) {
	done := make(chan struct{})
	l.mu.Lock()
	l.jobs = append(l.jobs, func() { f(); close(done) })
	l.mu.Unlock()
	// Full it cannot be, and anything else would be noticed below.
	_, _ = unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-done
}

func (l *loop) work() {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	l.mu.Unlock()
	for _, f := range jobs {
		f()
	}
}

// run carries frames, for good.
func (l *loop) run() error {
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
			l.stock.trim()
		}
		l.arrive()
		for _, e := range events[:n] {
			switch int(e.Fd) {
			case l.timer:
				l.armed = 0
			case l.bell:
				l.work() // may close devices that have events, too
			default:
				if d := l.devices[e.Fd]; d != nil && d.watched {
					l.read(d, e.Events)
					l.arrive()
				}
			}
		}
		if len(l.resting) > 0 {
			l.wakeUp()
		}
	}
}

// arrive sends out frames that are due, twice as many as may come in a turn.
func (l *loop) arrive() {
	bytes, before := 0, l.writes
	for n := 0; n < 2*turnReads && bytes < 2*turnBytes && l.writes-before < 2*turnWrites; n++ {
		due, ok := l.schedule.due()
		if !ok || due > l.now() {
			return
		}
		p := l.schedule.paths[0]
		bytes += len(p.wait.peek().frame)
		p.lan.arrive(p)
	}
}

// arm sets the timer to the next frame, and says how many milliseconds to wait
// for all else; -1 is for ever.
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
			return 1 // late, but not never
		}
		l.armed = due
	case !ok && l.stock.kept > 0:
		wait = int(idle / time.Millisecond)
	}
	if len(l.resting) > 0 { // sooner than it is idle
		wait = int(firstRest / int64(time.Millisecond))
	}
	return wait
}
