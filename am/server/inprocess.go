package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// InProcess returns a transport for calls that this process makes to its own API and authority, as a
// client with the certificate chain, leaf first, at the address remote. The calls count for all limits
// of that client, except those of connections. The log has calls that change nothing only at the
// level debug, since each page makes some.
func (s *Server) InProcess(chain [][]byte, remote string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, &peer{chain: chain}))
		r.RemoteAddr = remote
		return Answer(s, r), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answer returns the whole answer of a handler to a request of this process.
func Answer(h http.Handler, r *http.Request) *http.Response {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &recorder{status: http.StatusOK, header: http.Header{}}
	h.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}
}

// recorder is a ResponseWriter that keeps the answer. Deadlines of connections do not apply to it.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header              { return w.header }
func (w *recorder) WriteHeader(status int)           { w.status = status }
func (w *recorder) Write(b []byte) (int, error)      { return w.body.Write(b) }
func (w *recorder) FlushError() error                { return nil }
func (w *recorder) SetReadDeadline(time.Time) error  { return nil }
func (w *recorder) SetWriteDeadline(time.Time) error { return nil }
