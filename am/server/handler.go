package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/xmlrpc"
)

// ServeHTTP answers one call, or says with an HTTP status why it is none.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := event{id: newID(), start: time.Now(), remote: r.RemoteAddr, path: r.URL.Path}
	defer s.emit(&e)
	w.Header().Set("X-Request-Id", e.id)

	version, no := s.route(r)
	if no == nil {
		e.version = version
		no = s.call(w, r, version, &e)
	}
	if no != nil {
		e.status, e.refused = no.status, no.text
		no.write(w)
	}
}

// call reads the body, has the API answer it, and writes the answer.
func (s *Server) call(w http.ResponseWriter, r *http.Request, version int, e *event) *refusal {
	body, release, err := s.bodies.read(http.MaxBytesReader(w, r.Body, s.config.MaxBody), r.ContentLength)
	defer release()
	switch {
	case errors.Is(err, errBusy):
		return busy
	case tooLarge(err):
		return s.bodyTooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{http.StatusRequestTimeout, fmt.Sprintf("The call was not received within %s.", s.config.ReadTimeout)}
	case err != nil:
		return &refusal{http.StatusBadRequest, "The call was not received whole."}
	}
	e.received = len(body)

	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return busy
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.CallTimeout)
	defer cancel()
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	answer := s.answer(ctx, version, api.Request{
		ID:         e.id,
		Chain:      s.chain(r.Context()),
		Body:       body,
		AcceptGzip: acceptsGzip(r.Header.Values("Accept-Encoding")),
		Remote:     r.RemoteAddr,
	})
	e.status, e.sent, e.answer = http.StatusOK, len(answer.Body), answer.Event

	h := w.Header()
	h.Set("Content-Type", "text/xml; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(answer.Body)))
	if answer.Gzip {
		h.Set("Content-Encoding", "gzip")
		h.Set("Vary", "Accept-Encoding")
	}
	if _, err := w.Write(answer.Body); err != nil {
		e.unsent = err
	}
	return nil
}

var busy = &refusal{http.StatusServiceUnavailable, "The server is busy; try again later."}

// answer is the API's answer; when the API panics, it is that of an internal
// error, whose cause only the log tells.
func (s *Server) answer(ctx context.Context, version int, r api.Request) (answer api.Response) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		output := fmt.Sprintf("internal error; the operator finds it in the log as %s", r.ID)
		body, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{
			{Name: "geni_api", Value: version},
			{Name: "code", Value: xmlrpc.Struct{
				{Name: "geni_code", Value: int(am.ServerError)}, {Name: "am_type", Value: am.AMType}, {Name: "am_code", Value: int(am.ServerError)},
			}},
			{Name: "value", Value: ""},
			{Name: "output", Value: output},
		})
		if err != nil {
			body = xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: int(am.ServerError), Text: output})
		}
		answer = api.Response{Body: body, Event: api.Event{
			Code: am.ServerError, Output: output, Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack()),
		}}
	}()
	return s.opt.API.Serve(ctx, version, r)
}

func (s *Server) chain(ctx context.Context) [][]byte {
	if c, ok := ctx.Value(connKey{}).(net.Conn); ok && s.opt.Chain != nil {
		return s.opt.Chain(c)
	}
	return nil
}

// newID names a request in the log, in answers and in tasks.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
