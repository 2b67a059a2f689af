package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"patchbay/am"
	"patchbay/am/api"
)

// writer is a ResponseWriter that knows whether an answer has begun.
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

// answer is the API's answer; when the API panics, it is that of an internal
// error, whose cause only the log tells.
func (s *Server) answer(ctx context.Context, version int, r api.Request) (answer api.Response) {
	defer func() {
		if p := recover(); p != nil {
			output := internal(r.ID)
			answer = api.Response{Body: api.ErrorBody(version, am.ServerError, output), Event: api.Event{
				Changes: true, // for who knows
				Code:    am.ServerError, Output: output, Err: panicked(p),
			}}
		}
	}()
	return s.opt.API.Serve(ctx, version, r)
}

// rescue is for a panic around the API; it is deferred. What has begun to be
// answered is cut off, so that nobody takes it for whole.
func (s *Server) rescue(w *writer, e *event) {
	p := recover()
	if p == nil {
		return
	}
	if e.version == 0 || w.begun {
		e.status, e.refused, e.cause = http.StatusInternalServerError, internal(e.id), panicked(p)
		cut(w, e.id)
		return
	}
	s.tell(w, e, am.ServerError, internal(e.id), panicked(p))
}

// guarded turns a panic of h into an answer that names a line in the log.
func (s *Server) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &writer{ResponseWriter: rw}
		defer func() {
			if p := recover(); p != nil {
				id := newID()
				s.opt.Log.Error("a request of this host could not be answered", slog.String("id", id), "path", r.URL.Path, "error", panicked(p))
				cut(w, id)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// cut answers with a status, or ends the connection when that is too late.
func cut(w *writer, id string) {
	if w.begun {
		panic(http.ErrAbortHandler) // net/http is silent about this one
	}
	refusal{http.StatusInternalServerError, internal(id)}.write(w)
}

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

func internal(id string) string {
	return "internal error; the operator finds it in the log as " + id
}
