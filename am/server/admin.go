package server

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminHandler returns the handler of /healthz, /readyz and /metrics for the operator's
// monitoring.
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

// remoteHandler answers 401 unless AllowsRemote returns true.
func (s *Server) remoteHandler() http.Handler {
	inner := s.AdminHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opt.AllowsRemote == nil || !s.opt.AllowsRemote(r) {
			s.throttle.count("metrics", sourceName(r.RemoteAddr), func(source string, times int) {
				s.opt.Log.Warn("metrics were requested without the token", "from", source, slog.Int("times", times))
			})
			w.Header().Set("WWW-Authenticate", `Bearer realm="patchbay"`)
			http.Error(w, "send the token of metrics.token_file: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}
