package server

import (
	"errors"
	"log/slog"
	"net/http"
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

// SocketHandler serves what the site's own providers ask, and nobody else:
//
//	GET /manifest?sliver=URN   the manifest of the slice that the sliver is of
func (s *Server) SocketHandler() http.Handler {
	mux := http.NewServeMux()
	places := make(chan struct{}, maxManifests)
	mux.HandleFunc("GET /manifest", func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			s.manifest(w, r.URL.Query().Get("sliver"))
		default:
			busy.write(w)
		}
	})
	return mux
}

func (s *Server) manifest(w http.ResponseWriter, sliver string) {
	if sliver == "" || len(sliver) > maxSliver {
		no := refusal{http.StatusBadRequest, "Name one sliver: GET /manifest?sliver=URN, with the URN escaped as in any query."}
		no.write(w)
		return
	}
	text, err := s.opt.Manifest(sliver)
	if err != nil {
		no := s.manifestRefused(sliver, err)
		no.write(w)
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
