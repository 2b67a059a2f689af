package gauge

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stream is what was received of a TCP stream.
type stream struct {
	Bytes   int64         `json:"bytes"`
	Time    time.Duration `json:"time"`    // ns
	Segment int           `json:"segment"` // bytes of a full segment
	Stamps  bool          `json:"stamps"`  // segments bear the option of time stamps
}

// rates are those of the payload and on the line, bit/s: with the headers of
// Ethernet, IP and TCP of full segments. Neither checksum nor gap count, as they
// do not in the kernel's queues.
func (s stream) rates(peer netip.Addr) (goodput, line float64) {
	if s.Time <= 0 || s.Segment <= 0 {
		return 0, 0
	}
	goodput = float64(s.Bytes) * 8 / s.Time.Seconds()
	headers := 14 + ipHeader(peer) + 20
	if s.Stamps {
		headers += 12
	}
	return goodput, goodput * float64(s.Segment+headers) / float64(s.Segment)
}

func (s stream) check() error {
	if s.Bytes < 0 || s.Time < 0 || s.Time > 2*maxTime || s.Segment < 0 || s.Segment > 1<<20 {
		return errors.New("the other side's result makes no sense")
	}
	return nil
}

const streamBuffer = 256 << 10 // bytes

// receiveStream reads from c until the time is over, from the first bytes on.
// The first third does not count: there a stream finds out how fast it may go.
func receiveStream(c *net.TCPConn, d time.Duration) (stream, error) {
	buffer := make([]byte, streamBuffer)
	if err := c.SetReadDeadline(time.Now().Add(lineTime)); err != nil {
		return stream{}, err
	}
	n, err := c.Read(buffer)
	if err != nil {
		return stream{}, err
	}
	began := time.Now()
	if err := c.SetReadDeadline(began.Add(d)); err != nil {
		return stream{}, err
	}
	var mark, last time.Time
	var total, marked int64
	for total = int64(n); ; total += int64(n) {
		if n > 0 {
			if last = time.Now(); mark.IsZero() && last.Sub(began) >= d/3 {
				mark, marked = last, total
			}
		}
		if n, err = c.Read(buffer); err != nil {
			break
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		return stream{}, errors.New("the other side ended the stream before its time")
	}
	s := stream{}
	if !mark.IsZero() {
		s.Bytes, s.Time = total-marked, last.Sub(mark)
	}
	err = control(c, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return err
		}
		s.Segment, s.Stamps = int(info.Rcv_mss), info.Options&1 != 0 // TCPI_OPT_TIMESTAMPS
		return nil
	})
	return s, err
}

// sendStream writes to c until the other side has enough, or the time of d and
// some more is over.
func sendStream(c *net.TCPConn, d time.Duration) {
	// What is not sent yet waits here, where it costs nothing, and not in the kernel.
	_ = control(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, streamBuffer)
	})
	if c.SetWriteDeadline(time.Now().Add(d+lineTime)) != nil {
		return
	}
	buffer := make([]byte, streamBuffer)
	for {
		if _, err := c.Write(buffer); err != nil {
			return
		}
	}
}
