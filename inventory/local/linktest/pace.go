package linktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

type pace struct {
	packets int
	size    int           // of the payload, bytes
	burst   int           // packets of one system call
	rate    float64       // on the line, bit/s
	time    time.Duration // the planned time; sending ends after twice that
	token   uint64
}

func paceOf(r request) pace {
	return pace{packets: r.Packets, size: r.Size, burst: max(r.Burst, 1), rate: r.Rate, time: r.Time, token: r.Token}
}

func (p pace) check() error {
	switch {
	case p.packets < 1 || p.packets > maxPackets:
		return fmt.Errorf("the number of packets is not between 1 and %d", maxPackets)
	case p.size < minSize || p.size > maxSize:
		return fmt.Errorf("the size of packets is not between %d and %d bytes", minSize, maxSize)
	case p.burst < 1 || p.burst > maxBurst || p.burst*p.size > 65000:
		return fmt.Errorf("a burst is more than %d packets or 65000 bytes", maxBurst)
	case !(p.rate > 0 && p.rate <= maxRate): // also refuses NaN
		return fmt.Errorf("the rate is not between 0 and %.0f bit/s", maxRate)
	}
	return nil
}

// lag is the longest delay for which a sender compensates by sending faster. After a longer
// pause of a busy host, queues on the way would drop the datagrams sent to compensate.
const lag = 2 * time.Millisecond

// send returns how many datagrams it has sent. It stops when ctx ends, or after twice the
// planned time.
func (p pace) send(ctx context.Context, c *net.UDPConn, to netip.AddrPort) (sent int, err error) {
	if p.burst > 1 {
		err := withDescriptor(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, p.size) })
		if err != nil {
			return 0, fmt.Errorf("the kernel cannot cut bursts of datagrams into packets: %w", err)
		}
	}
	if err := c.SetWriteDeadline(time.Now().Add(2*p.time + time.Second)); err != nil {
		return 0, err
	}
	buffer := make([]byte, p.size*p.burst)
	each := time.Duration(float64(frameSize(p.size, to.Addr())*8*p.burst) / p.rate * float64(time.Second))
	due := time.Now()
	for end := due.Add(2 * p.time); sent < p.packets; {
		now := time.Now()
		if now.After(end) || ctx.Err() != nil {
			break
		}
		if wait := due.Sub(now); wait > 0 {
			time.Sleep(wait)
			continue
		} else if -wait > max(lag, 2*each) {
			due = now
		}
		n := min(p.burst, p.packets-sent)
		for i := range n {
			header{kind: typeNumbered, token: p.token, number: uint64(sent + i)}.marshal(buffer[i*p.size:])
		}
		if err := sendOne(c, buffer[:n*p.size], to); err != nil {
			return sent, err
		}
		sent += n
		due = due.Add(each)
	}
	return sent, nil
}

// sendOne retries while the system's queues are full. After about a second it returns
// errNoRoom.
func sendOne(c *net.UDPConn, b []byte, to netip.AddrPort) error {
	for range 1000 {
		_, err := c.WriteToUDPAddrPort(b, to)
		if !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errNoRoom
}
