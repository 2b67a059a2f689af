package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"patchbay/am"
	"patchbay/am/api"
)

// ServeHTTP answers one call, or says with an HTTP status why it is none.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.inside.Add(1)
	defer s.inside.Add(-1)
	w := &writer{ResponseWriter: rw}
	e := event{id: newID(), start: time.Now(), remote: r.RemoteAddr, path: r.URL.Path}
	defer s.emit(&e)
	defer s.rescue(w, &e)
	w.Header().Set("X-Request-Id", e.id)
	if len(r.TransferEncoding) > 0 {
		// It may have had a Content-Length, too, which net/http does not tell; what
		// follows on the connection is then not certain (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}

	version, no := s.route(r)
	e.version = version
	p, chain := s.peer(r.Context())
	e.caller = p.caller
	if no == nil {
		no = s.call(w, r, p, chain, &e)
	}
	if no != nil {
		e.status, e.refused = no.status, no.text
		no.write(w)
	}
}

// call has the API answer the call and sends the answer. While the answer is on
// its way, it counts as one of its caller's calls, but no longer as one that is
// worked on: others need not wait for a peer that does not read.
func (s *Server) call(w http.ResponseWriter, r *http.Request, p *peer, chain [][]byte, e *event) *refusal {
	leave, limit := s.admit(p)
	if limit != "" {
		s.busy(w, p, e, limit)
		return nil
	}
	defer leave()
	answer, limit, no := s.work(w, r, p, chain, e)
	switch {
	case no != nil:
		return no
	case limit != "":
		s.busy(w, p, e, limit)
		return nil
	}
	e.status, e.sent, e.answer = http.StatusOK, len(answer.Body), answer.Event
	s.audit(e)
	s.metrics.count(e)
	defer s.answers.put(p.caller, answer.Body)()

	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(answer.Body)))
	if answer.Gzip {
		h.Set("Content-Encoding", "gzip")
		h.Set("Vary", "Accept-Encoding")
	}
	if e.unsent = s.send(w, answer.Body, e.start.Add(s.config.WriteTimeout)); errors.Is(e.unsent, os.ErrDeadlineExceeded) {
		s.metrics.limited.WithLabelValues("stall_timeout").Inc()
	}
	return nil
}

const contentType = "text/xml; charset=utf-8"

// work receives a call and has the API answer it. It names the limit for which
// it does not, or what is wrong below XML-RPC.
func (s *Server) work(w http.ResponseWriter, r *http.Request, p *peer, chain [][]byte, e *event) (answer api.Response, limit string, no *refusal) {
	control := http.NewResponseController(w)
	in := &paced{
		Reader:  http.MaxBytesReader(w, r.Body, s.config.MaxBody),
		control: control, stall: s.config.StallTimeout, end: e.start.Add(s.config.ReadTimeout),
	}
	body, release, err := s.bodies.read(in, p.caller, r.ContentLength, s.config.MaxBody)
	defer release()
	switch {
	case errors.Is(err, errBusy):
		return answer, limitBodies, nil
	case tooLarge(err):
		return answer, "", s.bodyTooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.metrics.limited.WithLabelValues("stall_timeout").Inc()
		return answer, "", &refusal{http.StatusRequestTimeout, fmt.Sprintf(
			"The call came too slowly: 64 KiB of it must come within %s, and all within %s.", s.config.StallTimeout, s.config.ReadTimeout)}
	case err != nil:
		return answer, "", &refusal{http.StatusBadRequest, "The call was not received whole."}
	}
	e.received = len(body)
	// net/http reads on, to see whether the peer leaves; that has no deadline, or
	// the call would end with it.
	control.SetReadDeadline(time.Time{})

	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return answer, limitCalls, nil
	}
	if p.guest != nil && !s.gate.serve(p.guest) {
		return answer, "", &refusal{http.StatusServiceUnavailable, "The connection was ended, for there were too many."}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.CallTimeout)
	defer cancel()
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	counted := false
	mayChange := func(caller string) error {
		if e.caller = cmp.Or(e.caller, caller); counted || e.caller == "" {
			return nil
		}
		if counted = true; s.changes.take(e.caller, time.Now()) {
			return nil
		}
		limit = limitChanges
		return am.Errorf(am.ServerBusy, "%s", s.busyText(p, limit))
	}
	answer = s.answer(ctx, e.version, api.Request{
		ID:         e.id,
		Chain:      chain,
		Body:       body,
		AcceptGzip: acceptsGzip(r.Header.Values("Accept-Encoding")),
		Remote:     r.RemoteAddr,
		MayChange:  mayChange,
	})
	return answer, limit, nil
}

// newID names a request in the log, in answers and in tasks.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
