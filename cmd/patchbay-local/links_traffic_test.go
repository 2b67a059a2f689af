package main

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// traffic is a row of numbered datagrams, of which burst leave together.
type traffic struct {
	size, burst, count int
	space              time.Duration // between bursts
}

// headers are those of Ethernet, IPv4 and UDP.
const headers = 14 + 20 + 8

// paced is traffic of a rate on the line, in bit/s.
func paced(rate float64, size, burst int, length time.Duration) traffic {
	space := float64(burst*(size+headers)*8) / rate * float64(time.Second)
	return traffic{size, burst, int(float64(length)/space) * burst, time.Duration(space)}
}

// flights has the times at which each datagram left and arrived. A time is zero if there was none.
type flights struct{ left, came []time.Time }

// send sends datagrams from one node to another and waits until half a second passes without one.
// All sockets belong to this process, so both times are of one clock.
func (s *linkSite) send(p pair, link string, w traffic) (f flights, err error) {
	to, from, err := s.sockets(p, link)
	if err != nil {
		return f, err
	}
	defer to.Close()
	defer from.Close()
	if err := errors.Join(setOption(to, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20), setOption(to, unix.SOL_UDP, unix.UDP_GRO, 1),
		setOption(from, unix.SOL_UDP, unix.UDP_SEGMENT, w.size)); err != nil {
		return f, err
	}
	f = flights{make([]time.Time, w.count), make([]time.Time, w.count)}
	received := make(chan error, 1)
	go func() {
		b := make([]byte, 1<<16)
		for missing := w.count; missing > 0; {
			_ = to.SetReadDeadline(time.Now().Add(w.space + 500*time.Millisecond))
			n, err := to.Read(b)
			if errors.Is(err, net.ErrClosed) || err != nil && !err.(net.Error).Timeout() {
				received <- err
				return
			} else if err != nil {
				break
			}
			now := time.Now()
			for one := range slices.Chunk(b[:n], w.size) {
				if i := endian.BigEndian.Uint64(one); i < uint64(w.count) && f.came[i].IsZero() {
					f.came[i] = now
					missing--
				}
			}
		}
		received <- nil
	}()
	b := make([]byte, w.burst*w.size)
	begun := time.Now()
	for i := 0; i < w.count; i += w.burst {
		time.Sleep(time.Until(begun.Add(time.Duration(i/w.burst) * w.space)))
		n := min(w.burst, w.count-i)
		for j := range n {
			endian.BigEndian.PutUint64(b[j*w.size:], uint64(i+j))
			f.left[i+j] = time.Now()
		}
		_, _ = from.Write(b[:n*w.size]) // what cannot be sent is lost
	}
	if err := <-received; err != nil {
		return f, fmt.Errorf("%s on %s: %w", p, link, err)
	}
	return f, nil
}

// sockets opens a socket in each of two nodes. The second one sends to the first one.
func (s *linkSite) sockets(p pair, link string) (to, from *net.UDPConn, err error) {
	address := &net.UDPAddr{IP: net.ParseIP(s.address(string(p[1:]), link))}
	if err := s.inside(string(p[1:]), func() (err error) {
		to, err = net.ListenUDP("udp", address)
		return err
	}); err != nil {
		return nil, nil, err
	}
	err = s.inside(string(p[:1]), func() (err error) {
		from, err = net.DialUDP("udp", nil, to.LocalAddr().(*net.UDPAddr))
		return err
	})
	return to, from, err
}

// inside calls f in the network of a node.
func (s *linkSite) inside(letter string, f func() error) error {
	n, err := s.network(s.id(letter))
	if err != nil {
		return err
	}
	defer n.Network.Close()
	return netspace.Inside(n.Network, f)
}

func setOption(c *net.UDPConn, level, option, value int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	return errors.Join(raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), level, option, value) }), inner)
}

// delay returns the 10th percentile of the delays, in ms. A busy host delays some datagrams, which
// the mean would include. It returns -1 if no datagram arrived.
func (f flights) delay() float64 {
	var all []float64
	for i, at := range f.came {
		if !at.IsZero() {
			all = append(all, float64(at.Sub(f.left[i]))/float64(time.Millisecond))
		}
	}
	if len(all) == 0 {
		return -1
	}
	slices.Sort(all)
	return all[len(all)/10]
}

// loss is in per cent. run is how many datagrams are lost in a row, on average.
func (f flights) loss() (percent, run float64) {
	lost, rows := 0, 0
	for i, at := range f.came {
		if at.IsZero() {
			lost++
			if i == 0 || !f.came[i-1].IsZero() {
				rows++
			}
		}
	}
	return 100 * float64(lost) / float64(len(f.came)), float64(lost) / float64(max(rows, 1))
}

// rate is that on the line, in bit/s. The first third of the time does not count, because a link
// may let saved tokens through.
func (f flights) rate(size int) float64 {
	came := slices.DeleteFunc(slices.Clone(f.came), time.Time.IsZero)
	if len(came) < 2 {
		return 0
	}
	slices.SortFunc(came, time.Time.Compare)
	last := came[len(came)-1]
	begin := came[0].Add(last.Sub(came[0]) / 3)
	came = slices.DeleteFunc(came, func(at time.Time) bool { return at.Before(begin) })
	after := slices.IndexFunc(came, came[0].Before)
	if after < 0 {
		return 0
	}
	return float64((len(came)-after)*(size+headers)*8) / last.Sub(came[0]).Seconds()
}
