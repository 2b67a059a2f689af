package server

import (
	"io"
	"net/http"
	"time"
)

// piece is the number of bytes that must be transferred within the stall timeout.
const piece = 64 << 10

// paced reads a body with a deadline for each piece and one for the whole body.
type paced struct {
	io.Reader
	control *http.ResponseController
	stall   time.Duration
	end     time.Time
	left    int // bytes of the current piece that are not read yet
}

// Read reads at most the rest of the current piece. Each piece has its own deadline.
func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		p.left = piece
		// An error means that deadlines are not supported, as in tests.
		p.control.SetReadDeadline(earlier(p.end, time.Now().Add(p.stall)))
	}
	n, err := p.Reader.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// send writes an answer with a deadline for each piece and one for the whole answer.
func (s *Server) send(w http.ResponseWriter, body []byte, end time.Time) error {
	control := http.NewResponseController(w)
	for {
		control.SetWriteDeadline(earlier(end, time.Now().Add(s.config.StallTimeout)))
		n, err := w.Write(body[:min(len(body), piece)])
		if body = body[n:]; err != nil {
			return err
		}
		if len(body) == 0 {
			// Without Flush, net/http would send the end of the answer later, when the call no
			// longer counts for the limits. Then a peer that does not read answers could make any
			// number of calls.
			return control.Flush()
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
