package server

import (
	"io"
	"net/http"
	"time"
)

// piece is how much of a call or of an answer must get through in the time of
// the stall timeout.
const piece = 64 << 10

// paced reads a body whose every piece must come in time, and all of it too.
type paced struct {
	io.Reader
	control *http.ResponseController
	stall   time.Duration
	end     time.Time
	left    int // of the present piece
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		p.left = piece
		// Where deadlines are not supported there is no connection to guard.
		p.control.SetReadDeadline(earlier(p.end, time.Now().Add(p.stall)))
	}
	n, err := p.Reader.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// send writes an answer whose every piece must go in time, and all of it too.
func (s *Server) send(w http.ResponseWriter, body []byte, end time.Time) error {
	control := http.NewResponseController(w)
	for {
		control.SetWriteDeadline(earlier(end, time.Now().Add(s.config.StallTimeout)))
		n, err := w.Write(body[:min(len(body), piece)])
		if body = body[n:]; err != nil {
			return err
		}
		if len(body) == 0 {
			// net/http would keep the end of it, and send that when the call is no
			// longer counted: a peer that does not read could have any number then.
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
