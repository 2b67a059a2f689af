package vswitch

import (
	"time"

	"golang.org/x/sys/unix"
)

// device is a port's TAP in the switch process.
type device struct {
	fd     int
	lan    *lan
	port   *port
	polled bool // the loop's epoll has the device
	closed bool
	retry  int64 // when to poll a paused device again
	pause  int64 // the length of the last pause, in ns
}

// A device with read errors is paused; each further pause is twice as long.
const (
	firstRest = int64(50 * time.Millisecond)
	maxRest   = int64(time.Second)
)

// The turn of a device ends after turnReads frames or turnBytes bytes were read. It also
// ends after turnWrites frames were written, because one frame may go to all ports. Then
// frames that are due are sent, and the next device gets its turn.
const (
	turnReads  = 16
	turnBytes  = 128 << 10
	turnWrites = 64
)

// bufferSize has room for any frame with its header, and one more byte.
const bufferSize = 66 << 10

func (l *loop) poll(d *device) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(d.fd)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, d.fd, &event); err != nil {
		return err
	}
	d.polled = true
	return nil
}

func (l *loop) unpoll(d *device) {
	if d.polled {
		d.polled = false
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, d.fd, nil) // the descriptor is in the epoll
	}
}

// read reads and forwards the frames of a device for one turn. The parameter events has the
// events that epoll reported.
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
			l.unpoll(d) // the interface was deleted and does not come back
			return
		case err != nil || got == 0:
			l.pauseDevice(d)
			return
		}
		d.pause = 0
		bytes += got
		if got == len(l.buffer) { // the frame was longer than the buffer
			d.port.counts.Bad++
			continue
		}
		d.lan.receive(l.now(), d.port, l.buffer[:got])
	}
}

func (l *loop) pauseDevice(d *device) {
	l.unpoll(d)
	d.pause = min(max(firstRest, 2*d.pause), maxRest)
	d.retry = l.now() + d.pause
	l.paused = append(l.paused, d)
}

func (l *loop) resumeDevices() {
	now, still := l.now(), l.paused[:0]
	for _, d := range l.paused {
		switch {
		case d.closed:
		case d.retry > now || l.poll(d) != nil:
			still = append(still, d)
		}
	}
	clear(l.paused[len(still):])
	l.paused = still
}

// write reports whether the device accepted the frame. After an error, only this frame is lost.
func (l *loop) write(p *port, b []byte) bool {
	l.writes++
	for {
		_, err := unix.Write(p.device.fd, b)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// openDevice returns a device for the descriptor fd, which the loop then owns. If the device
// cannot be polled, the loop tries again later.
func (l *loop) openDevice(fd int, lan *lan, p *port) *device {
	d := &device{fd: fd, lan: lan, port: p}
	l.devices[int32(fd)] = d
	if unix.SetNonblock(fd, true) != nil || l.poll(d) != nil {
		l.pauseDevice(d)
	}
	return d
}

func (l *loop) closeDevice(d *device) {
	l.unpoll(d)
	d.closed = true
	delete(l.devices, int32(d.fd))
	unix.Close(d.fd)
}
