package server

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminHandler serves what an operator's machinery asks: is the process alive,
// can it serve calls, and how is it doing.
func (s *Server) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.opt.Ready != nil {
			if err := s.opt.Ready(); err != nil {
				http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

// remoteHandler is AdminHandler for other hosts, if Admits allows it.
func (s *Server) remoteHandler() http.Handler {
	inner := s.AdminHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opt.Admits == nil || !s.opt.Admits(r) {
			s.seldom.count("metrics", sourceText(r.RemoteAddr), func(source string, times int) {
				s.opt.Log.Warn("metrics were asked for without the token", "from", source, slog.Int("times", times))
			})
			w.Header().Set("WWW-Authenticate", `Bearer realm="patchbay"`)
			http.Error(w, "send the token of metrics.token_file: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}
