package linktest

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stream is what was received of a TCP stream.
type stream struct {
	Bytes    int64         `json:"bytes"`    // in their order, as the receiver read them
	Time     time.Duration `json:"time"`     // ns
	Segments int           `json:"segments"` // that came, in whatever order, meanwhile
	Segment  int           `json:"segment"`  // bytes of a full segment
	Stamps   bool          `json:"stamps"`   // segments bear the option of time stamps
}

// rates are those of the payload and on the line, bit/s. On the line full segments
// count, with the headers of Ethernet, IP and TCP, but without checksum and gap,
// as in the kernel's queues. A lost segment holds up many that came, so that over
// a short time the payload tells less of a slow link.
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

func (s stream) check() error {
	if s.Bytes < 0 || s.Time < 0 || s.Time > 2*maxTime || s.Segments < 0 || s.Segment < 0 || s.Segment > 1<<20 {
		return errNonsense
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
	var mark, last sample
	for total := int64(n); ; total += int64(n) {
		if mark.at.IsZero() && time.Since(began) >= d/3 {
			if mark, err = take(c, total); err != nil {
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
	if last, err = take(c, last.bytes); err != nil || mark.at.IsZero() {
		return stream{}, err
	}
	return stream{
		Bytes: last.bytes - mark.bytes, Time: last.at.Sub(mark.at), Segments: int(last.info.Data_segs_in - mark.info.Data_segs_in),
		Segment: int(last.info.Rcv_mss), Stamps: last.info.Options&1 != 0, // TCPI_OPT_TIMESTAMPS
	}, nil
}

// sample is how far a stream was at one moment.
type sample struct {
	at    time.Time
	bytes int64
	info  *unix.TCPInfo
}

func take(c *net.TCPConn, bytes int64) (s sample, err error) {
	s.bytes = bytes
	err = control(c, func(fd int) (err error) {
		s.at = time.Now()
		s.info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
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
