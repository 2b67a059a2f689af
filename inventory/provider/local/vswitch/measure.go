package vswitch

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Measure returns how many full frames per second the vswitch forwards over one link on this
// host. For the duration window it sends more frames than the vswitch can forward. Measure
// creates two TAPs in the network namespace of the calling thread, which must be a temporary
// namespace. It needs root. Its forwarding goroutine runs until the process ends.
func Measure(window time.Duration) (perSecond float64, err error) {
	l, err := newLoop(newMemoryBudget(maxBytes))
	if err != nil {
		return 0, err
	}
	staged := make(map[string]int)
	p := plan{Paths: []Path{{Delay: time.Millisecond}}}
	for _, name := range []string{"measure0", "measure1"} {
		f, err := OpenTAP(name, true)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if staged[name], err = duplicate(f); err != nil {
			return 0, err
		}
		if err := switchOn(name); err != nil {
			return 0, err
		}
		p.Ports = append(p.Ports, plannedPort{name, 1500})
	}
	send, stop, err := sender("measure0")
	if err != nil {
		return 0, err
	}
	defer stop()
	go func() { _ = l.serve() }()
	lan := l.newLAN()
	l.run(func() { l.setLink(lan, p, staged) })
	count := func() (n uint64) {
		l.run(func() { n = lan.ports[1].counts.OutPackets })
		return n
	}
	start, before := time.Now(), count()
	for time.Since(start) < window {
		send()
	}
	return float64(count()-before) / time.Since(start).Seconds(), nil
}

func switchOn(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("cannot switch %s on: %w", name, err)
	}
	return nil
}

// sender returns a function that broadcasts 64 full frames from an interface. If the
// interface's queue is full, frames are lost.
func sender(name string) (send, stop func(), err error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("cannot send from %s: %w", name, err)
	}
	frame := make([]byte, 1514)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}) // an unused protocol
	to := &unix.SockaddrLinklayer{Ifindex: int(request.Uint32())}
	send = func() {
		for range 64 {
			_ = unix.Sendto(fd, frame, 0, to) // a full queue is intended
		}
	}
	return send, func() { unix.Close(fd) }, nil
}
