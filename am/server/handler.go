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

// ServeHTTP answers one call. A request that is not a call gets an HTTP error status.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	w := &writer{ResponseWriter: rw}
	e := event{id: newID(), start: time.Now(), remote: r.RemoteAddr, path: r.URL.Path}
	defer s.emit(&e)
	defer s.recoverCall(w, &e)
	w.Header().Set("X-Request-Id", e.id)
	if len(r.TransferEncoding) > 0 {
		// The request may also have had a Content-Length, which net/http hides. Then the
		// start of the next request is uncertain (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}

	t, refused := s.route(r)
	e.target = t
	p, chain := s.peer(r.Context())
	e.caller, e.internal = p.caller, p.chain != nil
	if refused == nil {
		refused = s.call(w, r, p, chain, &e)
	}
	if refused != nil {
		e.status, e.refused = refused.status, refused.text
		refused.write(w)
	}
}

// call receives a call, passes it on, and sends the answer, under all limits. It returns an HTTP error if it cannot receive
// the call, or if the limiter has closed the connection. While the answer is being sent, the call still counts for MaxCallsPerCaller but no
// longer for MaxCalls. So a peer that does not read does not block other callers.
func (s *Server) call(w http.ResponseWriter, r *http.Request, p *peer, chain [][]byte, e *event) *refusal {
	release, limit := s.admit(p)
	if limit != "" {
		s.answerBusy(w, p, e, limit)
		return nil
	}
	defer release()
	answer, limit, refused := s.process(w, r, p, chain, e)
	switch {
	case refused != nil:
		return refused
	case limit != "":
		s.answerBusy(w, p, e, limit)
		return nil
	}
	e.status, e.sent, e.answer = http.StatusOK, len(answer.Body), answer.Event
	s.audit(e)
	s.metrics.count(e)
	defer s.answers.add(p.caller, answer.Body)()

	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(answer.Body)))
	if answer.Gzip {
		h.Set("Content-Encoding", "gzip")
		h.Set("Vary", "Accept-Encoding")
	}
	if e.unsent = s.send(w, answer.Body, e.start.Add(s.config.WriteTimeout)); errors.Is(e.unsent, os.ErrDeadlineExceeded) {
		s.metrics.limited.WithLabelValues(limitStall).Inc()
	}
	return nil
}

const contentType = "text/xml; charset=utf-8"

// process reads the body and lets the API or the authority answer the call. It returns the answer or the name of an
// exceeded limit. It returns an HTTP error if it cannot receive the call, or if the limiter has closed the connection.
func (s *Server) process(w http.ResponseWriter, r *http.Request, p *peer, chain [][]byte, e *event) (answer api.Response, limit string, refused *refusal) {
	control := http.NewResponseController(w)
	in := &paced{
		Reader:  http.MaxBytesReader(w, r.Body, e.maxBody),
		control: control, stall: s.config.StallTimeout, end: e.start.Add(s.config.ReadTimeout),
	}
	body, release, err := s.bodies.read(in, p.caller, r.ContentLength, e.maxBody)
	defer release()
	switch {
	case errors.Is(err, errBusy):
		return answer, limitBodies, nil
	case isTooLarge(err):
		return answer, "", s.bodyTooLarge(e.target)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.metrics.limited.WithLabelValues(limitStall).Inc()
		return answer, "", &refusal{http.StatusRequestTimeout, fmt.Sprintf(
			"The call came too slowly: each 64 KiB must arrive within %s, and the whole call within %s.", s.config.StallTimeout, s.config.ReadTimeout)}
	case err != nil:
		return answer, "", &refusal{http.StatusBadRequest, "The call was not received completely."}
	}
	e.received = len(body)
	// While the call is processed, net/http reads from the connection to detect that the peer
	// disconnects. Without this line the read deadline would cancel the call.
	control.SetReadDeadline(time.Time{})

	calls, changes := s.calls, s.changes
	if e.service != "" {
		calls, changes = s.authorityCalls, s.authorityChanges
	}
	select {
	case calls <- struct{}{}:
		defer func() { <-calls }()
	default:
		return answer, limitCalls, nil
	}
	if p.tracked != nil && !s.limiter.startCall(p.tracked) {
		return answer, "", &refusal{http.StatusServiceUnavailable, "The connection was closed, because there were too many connections."}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.CallTimeout)
	defer cancel()
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	counted := false // the API asks twice, and the call counts once
	mayChange := func(caller string) error {
		if e.caller = cmp.Or(e.caller, caller); counted || e.caller == "" {
			return nil
		}
		if counted = true; changes.allow(e.caller, time.Now()) {
			return nil
		}
		limit = limitChanges
		return am.Errorf(am.ServerBusy, "%s", s.busyText(p, limit))
	}
	answer = s.answer(ctx, e, api.Request{
		ID:         e.id,
		Chain:      chain,
		Body:       body,
		AcceptGzip: acceptsGzip(r.Header.Values("Accept-Encoding")),
		Remote:     r.RemoteAddr,
		MayChange:  mayChange,
	})
	return answer, limit, nil
}

// answer lets the API or the authority answer a call. If they panic, it returns an internal error. The log has the
// cause, the answer does not.
func (s *Server) answer(ctx context.Context, e *event, r api.Request) (answer api.Response) {
	defer func() {
		if p := recover(); p != nil {
			output := internalError(r.ID)
			answer = api.Response{Body: s.errorBody(e, am.ServerError, output), Event: api.Event{
				Changes: true, // the API may have changed something
				Code:    am.ServerError, Output: output, Err: panicError(p),
			}}
		}
	}()
	if e.service != "" {
		return s.opt.Authority.Serve(ctx, e.path, r)
	}
	return s.opt.API.Serve(ctx, e.version, r)
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
