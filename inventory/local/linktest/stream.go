package linktest

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stream holds a receiver's measurements of a TCP stream.
type stream struct {
	Bytes    int64         `json:"bytes"`    // delivered in order to the receiver
	Time     time.Duration `json:"time"`     // ns
	Segments int           `json:"segments"` // received in the same time, in any order
	Segment  int           `json:"segment"`  // bytes of a full segment
	Stamps   bool          `json:"stamps"`   // segments have the timestamp option
}

// rates returns bit/s. The rate on the line assumes that all segments are full. Like the
// kernel's queues, it counts the headers of Ethernet, IP and TCP, but not Ethernet's
// checksum and gap. A lost segment delays the delivery of later segments. So a short
// measurement of a slow link can show a payload rate that is too low.
func (s stream) rates(peer netip.Addr) (goodput, line float64) {
	if s.Time <= 0 || s.Segment <= 0 {
		return 0, 0
	}
	goodput = float64(s.Bytes) * 8 / s.Time.Seconds()
	headers := 14 + ipHeader(peer) + 20
	if s.Stamps {
		headers += 12
	}
	return goodput, float64(s.Segments) * float64(s.Segment+headers) * 8 / s.Time.Seconds()
}

// check returns an error if the other side's result is impossible.
func (s stream) check() error {
	if s.Bytes < 0 || s.Time < 0 || s.Time > 2*maxTime || s.Segments < 0 || s.Segment < 0 || s.Segment > 1<<20 {
		return errInvalidResult
	}
	return nil
}

const streamBuffer = 256 << 10 // bytes

// receiveStream reads until d has passed since the first bytes came. The first third of
// that time does not count, because TCP is still increasing its rate.
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
	var mark, last sample
	for total := int64(n); ; total += int64(n) {
		if mark.at.IsZero() && time.Since(began) >= d/3 {
			if mark, err = takeSample(c, total); err != nil {
				return stream{}, err
			}
		}
		if n, err = c.Read(buffer); err != nil {
			last.bytes = total
			break
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		return stream{}, errors.New("the other side ended the stream before its time")
	}
	if last, err = takeSample(c, last.bytes); err != nil || mark.at.IsZero() {
		return stream{}, err
	}
	return stream{
		Bytes: last.bytes - mark.bytes, Time: last.at.Sub(mark.at), Segments: int(last.info.Data_segs_in - mark.info.Data_segs_in),
		Segment: int(last.info.Rcv_mss), Stamps: last.info.Options&1 != 0, // TCPI_OPT_TIMESTAMPS
	}, nil
}

type sample struct {
	at    time.Time
	bytes int64
	info  *unix.TCPInfo
}

// takeSample takes the number of bytes received so far.
func takeSample(c *net.TCPConn, bytes int64) (s sample, err error) {
	s.bytes = bytes
	err = withDescriptor(c, func(fd int) (err error) {
		s.at = time.Now()
		s.info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	})
	return s, err
}

// sendStream writes to c until the other side closes the connection, but no longer than d
// plus lineTime.
func sendStream(c *net.TCPConn, d time.Duration) {
	// Unsent data waits here, not in the kernel's memory.
	_ = withDescriptor(c, func(fd int) error {
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
