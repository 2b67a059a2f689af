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

const (
	// maxManifests limits the manifests that are written at the same time. Manifests may be
	// large.
	maxManifests = 4
	// maxSliver is in bytes.
	maxSliver = 1024
)

// SocketHandler returns the handler for the site's own providers and commands:
//
//	GET /manifest?sliver=URN   the manifest of the sliver's slice
//
// It also serves Options.SocketHandlers. For the paths above it refuses a query with an
// unknown or repeated key.
func (s *Server) SocketHandler() http.Handler {
	mux := http.NewServeMux()
	places := make(chan struct{}, maxManifests)
	mux.HandleFunc("GET /manifest", func(w http.ResponseWriter, r *http.Request) {
		q, ok := parseQuery(w, r, "sliver")
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
	for pattern, h := range s.opt.SocketHandlers {
		mux.Handle(pattern, h)
	}
	return mux
}

// parseQuery refuses unknown and repeated keys. Then it has answered, and ok is false.
func parseQuery(w http.ResponseWriter, r *http.Request, keys ...string) (q url.Values, ok bool) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	for key, values := range q {
		switch {
		case !slices.Contains(keys, key):
			err = fmt.Errorf("unknown key %.40q", key)
		case len(values) > 1:
			err = fmt.Errorf("%s is given twice; give it once", key)
		}
	}
	if err != nil {
		refusal{http.StatusBadRequest, fmt.Sprintf("The query cannot be understood: %.200s.", err)}.write(w)
	}
	return q, err == nil
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
	w.Write(text) // an error means that the client has disconnected
}

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
	return refusal{http.StatusInternalServerError, "The manifest cannot be made; the log has the reason."}
}
