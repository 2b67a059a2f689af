package vswitch

import (
	"time"

	"golang.org/x/sys/unix"
)

// device is a port's TAP in the relay process.
type device struct {
	fd      int
	lan     *lan
	port    *port
	watched bool // it is in the loop's epoll
	closed  bool
	retry   int64 // when it is to be watched again
	pause   int64
}

// A device that cannot be read is left alone for a time, twice as long each time.
const (
	firstRest = int64(50 * time.Millisecond)
	maxRest   = int64(time.Second)
)

// A turn is how much is done before it is the next device's turn, or that of frames
// that are due: so many frames or bytes that came, or frames that went, for one may
// go to all ports.
const (
	turnReads  = 16
	turnBytes  = 128 << 10
	turnWrites = 64
)

// bufferSize has room for any frame with its header, and a byte more.
const bufferSize = 66 << 10

// watch has the loop told when there is something to read.
func (l *loop) watch(d *device) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(d.fd)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, d.fd, &event); err != nil {
		return err
	}
	d.watched = true
	return nil
}

// unwatch ends that.
func (l *loop) unwatch(d *device) {
	if d.watched {
		d.watched = false
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, d.fd, nil) // it is in there
	}
}

// read takes frames from a device.
func (l *loop) read(d *device, events uint32) {
	bytes, before := 0, l.writes
	for n := 0; n < turnReads && bytes < turnBytes && l.writes-before < turnWrites; n++ {
		got, err := unix.Read(d.fd, l.buffer)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && (n > 0 || events&(unix.EPOLLERR|unix.EPOLLHUP) == 0):
			return
		case err == unix.EBADFD:
			l.unwatch(d) // the interface was deleted, and does not come back
			return
		case err != nil || got == 0:
			l.rest(d)
			return
		}
		d.pause = 0
		bytes += got
		if got == len(l.buffer) { // and there was more
			d.port.counts.Bad++
			continue
		}
		d.lan.came(l.now(), d.port, l.buffer[:got])
	}
}

// rest leaves a device alone for a while.
func (l *loop) rest(d *device) {
	l.unwatch(d)
	d.pause = min(max(firstRest, 2*d.pause), maxRest)
	d.retry = l.now() + d.pause
	l.resting = append(l.resting, d)
}

// wakeUp watches the devices again that have rested.
func (l *loop) wakeUp() {
	now, still := l.now(), l.resting[:0]
	for _, d := range l.resting {
		switch {
		case d.closed:
		case d.retry > now || l.watch(d) != nil:
			still = append(still, d)
		}
	}
	clear(l.resting[len(still):])
	l.resting = still
}

// write puts a frame into a device. Whatever is wrong, only this frame is lost.
func (l *loop) write(p *port, b []byte) bool {
	l.writes++
	for {
		_, err := unix.Write(p.device.fd, b)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// open makes a device of a descriptor, which is the loop's from now on. One
// that cannot be watched is tried again.
func (l *loop) open(fd int, lan *lan, p *port) *device {
	d := &device{fd: fd, lan: lan, port: p}
	l.devices[int32(fd)] = d
	if unix.SetNonblock(fd, true) != nil || l.watch(d) != nil {
		l.rest(d)
	}
	return d
}

// shut closes a device.
func (l *loop) shut(d *device) {
	l.unwatch(d)
	d.closed = true
	delete(l.devices, int32(d.fd))
	unix.Close(d.fd)
}
