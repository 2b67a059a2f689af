package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// maxForm limits the body of a request to the pages, in bytes. Its largest part is a request RSpec.
	maxForm = 1<<20 + 64<<10
	// maxStreams limits the open streams of events, and maxStreamsPerCaller those of one caller. All may come from the address of
	// a proxy, so they must leave some of the connections of an address, 256.
	maxStreams, maxStreamsPerCaller = 192, 4
	// pageTimeout is the time in which a page must be made and sent.
	pageTimeout = time.Minute
)

// newPageServer returns the server of the pages. It has no WriteTimeout, because streams of events
// have no end.
func (s *Server) newPageServer() *http.Server {
	return &http.Server{
		ReadHeaderTimeout: s.config.HeaderTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    s.config.MaxHeader,
		// Any host can cause lines about failed handshakes.
		ErrorLog:    slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		ConnContext: withPeer,
		ConnState:   s.endIdleCall,
	}
}

// ServePages answers requests on l with h until Shutdown, under the limits of connections, bodies
// and calls that also hold for the API. secure wraps l in TLS; nil for none. h gets the whole body.
func (s *Server) ServePages(l net.Listener, secure func(net.Listener) net.Listener, h http.Handler) error {
	s.pages.Handler = s.recoverHandler(s.limitPages(h))
	l = s.Limit(l)
	if secure != nil {
		l = secure(l)
	}
	return ignoreClosed(s.pages.Serve(l))
}

// placeKey is the key of the function that gives up the place of a request among those of its address.
type placeKey struct{}

// limitPages calls h within the limits of one address.
func (s *Server) limitPages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.active.Add(1)
		defer s.active.Add(-1)
		caller := "pages " + sourceName(r.RemoteAddr)
		if !s.callers.Take(caller, 1, 0) {
			refusal{http.StatusServiceUnavailable, "There are too many requests from your network; try again later."}.write(w)
			return
		}
		leave := sync.OnceFunc(func() { s.callers.Release(caller, 1) })
		defer leave()
		r = r.WithContext(context.WithValue(r.Context(), placeKey{}, leave))
		if p, _ := r.Context().Value(peerKey{}).(*peer); p != nil && p.tracked != nil && !s.limiter.startCall(p.tracked) {
			return // the limiter has closed the connection
		}
		body, release, refused := s.readForm(w, r, caller)
		defer release()
		if refused != nil {
			refused.write(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout))
		h.ServeHTTP(w, r)
	})
}

// readForm reads the body of a request. Call release when the body is no longer used.
func (s *Server) readForm(w http.ResponseWriter, r *http.Request, caller string) (body []byte, release func(), refused *refusal) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("The form is larger than %d KiB, the limit of the pages.", maxForm>>10)}
	if r.ContentLength > maxForm {
		return nil, func() {}, tooLarge
	}
	if r.ContentLength == 0 {
		return nil, func() {}, nil
	}
	control := http.NewResponseController(w)
	in := &paced{
		Reader:  http.MaxBytesReader(w, r.Body, maxForm),
		control: control, stall: s.config.StallTimeout, end: time.Now().Add(s.config.ReadTimeout),
	}
	body, release, err := s.bodies.read(in, caller, r.ContentLength, maxForm)
	control.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, errBusy):
		refused = &refusal{http.StatusServiceUnavailable, "The server receives too many large requests; try again later."}
	case isTooLarge(err):
		refused = tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		refused = &refusal{http.StatusRequestTimeout, "The form came too slowly; send it again."}
	case err != nil:
		refused = &refusal{http.StatusBadRequest, "The form was not received completely; send it again."}
	}
	return body, release, refused
}

// BeginStream counts a stream of events of a caller until end is called. From then on, the request with the context
// ctx does not count for its address, which a whole class may have. The returned context ends with ctx, and when the
// server is shut down. BeginStream returns false if there are too many streams.
func (s *Server) BeginStream(ctx context.Context, caller string) (_ context.Context, end func(), ok bool) {
	s.streaming.Lock()
	defer s.streaming.Unlock()
	if s.streams[caller] >= maxStreamsPerCaller || s.streamCount >= maxStreams {
		return ctx, nil, false
	}
	if leave, ok := ctx.Value(placeKey{}).(func()); ok {
		leave()
	}
	s.streams[caller]++
	s.streamCount++
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.serving, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.streaming.Lock()
		defer s.streaming.Unlock()
		s.streamCount--
		if s.streams[caller]--; s.streams[caller] == 0 {
			delete(s.streams, caller)
		}
	}, true
}
