package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"patchbay/am"
)

// writer is a ResponseWriter that records whether an answer has begun.
type writer struct {
	http.ResponseWriter
	begun bool
}

func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recoverCall handles a panic outside the API. Call it with defer. It answers with an envelope,
// or with an HTTP error if the API version is not known yet. If an answer has begun, it closes
// the connection. So the client does not mistake the answer for a complete one.
func (s *Server) recoverCall(w *writer, e *event) {
	p := recover()
	if p == nil {
		return
	}
	if e.version == 0 && e.service == "" || w.begun {
		e.status, e.refused, e.cause = http.StatusInternalServerError, internalError(e.id), panicError(p)
		abort(w, e.id)
		return
	}
	s.writeEnvelope(w, e, am.ServerError, internalError(e.id), panicError(p))
}

// recoverHandler logs a panic of h and answers with an internal error that names the log line.
func (s *Server) recoverHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &writer{ResponseWriter: rw}
		defer func() {
			if p := recover(); p != nil {
				id := newID()
				s.opt.Log.Error("a request of a monitor or a command could not be answered", slog.String("id", id), "path", r.URL.Path, "error", panicError(p))
				abort(w, id)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// abort answers with an error status. If an answer has begun, it panics, so that net/http closes
// the connection.
func abort(w *writer, id string) {
	if w.begun {
		panic(http.ErrAbortHandler) // net/http does not log this panic
	}
	refusal{http.StatusInternalServerError, internalError(id)}.write(w)
}

func panicError(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

func internalError(id string) string {
	return "internal error; the operator finds it in the log as " + id
}
