package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"patchbay/am"
)

// Bounds on what is asked through the socket.
const (
	// maxManifests is how many manifests are made at one time, for each may be large.
	maxManifests = 4
	// maxSliver is the length of a sliver's URN in bytes.
	maxSliver = 1024
)

// SocketHandler serves what the site's own providers and commands ask, and nobody
// else:
//
//	GET /manifest?sliver=URN   the manifest of the slice that the sliver is of
//	GET /maintenance           what is out of service, read again before
//	GET /held?user=URN&slice=URN   what the user, the slice and its project hold
//
// and the Doors of its options. A query that is not wholly understood is refused.
func (s *Server) SocketHandler() http.Handler {
	mux := http.NewServeMux()
	places := make(chan struct{}, maxManifests)
	mux.HandleFunc("GET /manifest", func(w http.ResponseWriter, r *http.Request) {
		q, ok := asked(w, r, "sliver")
		if !ok {
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			s.manifest(w, q.Get("sliver"))
		default:
			refusal{http.StatusServiceUnavailable, "Too many manifests are being made; try again later."}.write(w)
		}
	})
	asking := make(chan struct{}, 1) // it looks at all slivers, so one after the other
	mux.HandleFunc("GET /maintenance", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := asked(w, r); !ok {
			return
		}
		select {
		case asking <- struct{}{}:
			defer func() { <-asking }()
			s.maintenance(w, r)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /held", func(w http.ResponseWriter, r *http.Request) {
		q, ok := asked(w, r, "user", "slice")
		if !ok {
			return
		}
		text, err := s.opt.Held(q.Get("user"), q.Get("slice"))
		if err != nil {
			refusal{http.StatusBadRequest, err.Error()}.write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text) // who asked may have left
	})
	for pattern, h := range s.opt.Doors {
		mux.Handle(pattern, h)
	}
	return mux
}

// asked is the query of r, in which each of the keys may stand once and nothing else.
// Any other is refused, in an answer; then ok is false.
func asked(w http.ResponseWriter, r *http.Request, keys ...string) (q url.Values, ok bool) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	for key, values := range q {
		switch {
		case !slices.Contains(keys, key):
			err = fmt.Errorf("nothing is called %.40q here", key)
		case len(values) > 1:
			err = fmt.Errorf("%s is asked twice; say it once", key)
		}
	}
	if err != nil {
		refusal{http.StatusBadRequest, fmt.Sprintf("The query cannot be understood: %.200s.", err)}.write(w)
	}
	return q, err == nil
}

func (s *Server) maintenance(w http.ResponseWriter, r *http.Request) {
	text, err := s.opt.Maintenance(r.Context())
	if err != nil {
		s.opt.Log.Error("what is out of service cannot be told", slog.Any("error", err))
		refusal{http.StatusInternalServerError, "What is out of service cannot be told; the log says why."}.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) // who asked may have left
}

func (s *Server) manifest(w http.ResponseWriter, sliver string) {
	if sliver == "" || len(sliver) > maxSliver {
		refusal{http.StatusBadRequest, "Name one sliver: GET /manifest?sliver=URN, with the URN escaped as in any query."}.write(w)
		return
	}
	text, err := s.opt.Manifest(sliver)
	if err != nil {
		s.manifestRefused(sliver, err).write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/xml; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.Write(text) // who asked may have left
}

// manifestRefused says why there is no manifest; what only the operator
// understands goes into the log.
func (s *Server) manifestRefused(sliver string, err error) refusal {
	if e, ok := errors.AsType[*am.Error](err); ok {
		switch e.Code {
		case am.BadArgs:
			return refusal{http.StatusBadRequest, e.Msg}
		case am.SearchFailed:
			return refusal{http.StatusNotFound, e.Msg}
		case am.Forbidden:
			return refusal{http.StatusForbidden, e.Msg}
		}
	}
	s.opt.Log.Error("a manifest could not be made for a provider", slog.String("sliver", sliver), slog.Any("error", err))
	return refusal{http.StatusInternalServerError, "The manifest cannot be made; the log says why."}
}
