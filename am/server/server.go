package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"patchbay/am/api"
)

// API is what the server serves: am/api.API. Serve never fails; a fault is a
// body, too.
type API interface {
	Serve(ctx context.Context, version int, r api.Request) api.Response
}

// Options are what the server is made of.
type Options struct {
	API API
	// Log receives one line per request.
	Log *slog.Logger
	// PublicURL is https://host:port as clients reach it, for the texts of
	// refusals. No slash at the end.
	PublicURL string
	// Chain is the raw certificate chain of a connection's peer, leaf first. It
	// is called while a request of that connection is served.
	Chain func(net.Conn) [][]byte
	// Ready tells what is missing to serve calls; nil when nothing is.
	Ready func() error
	// Manifest is the manifest of the slice that a sliver, named by its URN,
	// belongs to; its am.Error says what is not right.
	Manifest func(sliver string) ([]byte, error)
	// Gauges are numbers for /metrics, read when asked.
	Gauges []Gauge
}

// Gauge is a number that others know.
type Gauge struct {
	Name, Help string
	Value      func() float64
}

// Server answers calls on any number of listeners.
type Server struct {
	config  Config
	opt     Options
	http    *http.Server
	admin   *http.Server
	socket  *http.Server
	calls   chan struct{} // one element per call being worked on
	bodies  *budget
	metrics *metrics
}

type connKey struct{}

// New makes a server that is not listening yet.
func New(c Config, o Options) *Server {
	c = c.withDefaults()
	s := &Server{config: c, opt: o, calls: make(chan struct{}, c.MaxCalls), bodies: newBudget(c.MaxBodies)}
	s.metrics = newMetrics(o.Gauges)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: c.HeaderTimeout,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.WriteTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	s.admin, s.socket = s.within(s.AdminHandler()), s.within(s.SocketHandler())
	return s
}

// within is a server for those on this host.
func (s *Server) within(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       s.config.HeaderTimeout,
		WriteTimeout:      s.config.CallTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    s.config.MaxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelWarn),
	}
}

// Serve answers calls on l until Shutdown; then, and only then, it returns nil.
func (s *Server) Serve(l net.Listener) error { return closed(s.http.Serve(l)) }

// ServeAdmin answers /healthz, /readyz and /metrics on l until Shutdown.
func (s *Server) ServeAdmin(l net.Listener) error { return closed(s.admin.Serve(l)) }

// ServeSocket answers /manifest on l, which is only for the site's own user,
// until Shutdown.
func (s *Server) ServeSocket(l net.Listener) error { return closed(s.socket.Serve(l)) }

func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting and waits for the calls that have begun, at most
// until ctx ends; what still runs then is cut off and the error says so. The
// admin listener and the socket stay until the calls have ended, so that one can watch.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	return errors.Join(err, s.admin.Close(), s.socket.Close())
}
