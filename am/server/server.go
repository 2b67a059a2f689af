package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am/api"
	"patchbay/am/audit"
	"patchbay/am/budget"
)

// API is what the server serves: am/api.API. Serve never fails; a fault is a
// body, too.
type API interface {
	Serve(ctx context.Context, version int, r api.Request) api.Response
}

// Options are what the server is made of.
type Options struct {
	API API
	// Log receives one line per request; for those of strangers, one a minute and
	// address.
	Log *slog.Logger
	// Audit receives each call that may have changed something, before its answer
	// is sent; nil for nobody. Of strangers it receives one a minute and address,
	// which counts the others.
	Audit func(audit.Call)
	// PublicURL is https://host:port as clients reach it, for the texts of
	// refusals. No slash at the end.
	PublicURL string
	// Chain is the raw certificate chain of a connection's peer, leaf first. It
	// is called while a request of that connection is served.
	Chain func(net.Conn) [][]byte
	// Who is the name by which the calls of a chain's owner are counted, one for
	// each person; "" for a stranger. Nil makes everybody a stranger. No limit of
	// calls is kept before it is asked, so it bounds itself what strangers at one
	// address may cost; remote is nil where there is no connection.
	Who func(remote net.Addr, chain [][]byte) string
	// Admits reports whether a monitor on another host may read health and metrics; nil
	// refuses all.
	Admits func(*http.Request) bool
	// Ready tells what is missing to serve calls; nil when nothing is.
	Ready func() error
	// Manifest is the manifest of the slice that a sliver, named by its URN,
	// belongs to; its am.Error says what is not right.
	Manifest func(sliver string) ([]byte, error)
	// Maintenance tells the site's own user, in JSON, what is out of service, after
	// the file that says so was read again.
	Maintenance func(context.Context) ([]byte, error)
	// Held tells the site's own user, in JSON, what a user holds, and what is held in
	// a slice, which may be ""; its am.Error says what is not right.
	Held func(user, slice string) ([]byte, error)
	// Doors are what else is answered at the socket, to the site's own user alone,
	// by patterns of http.ServeMux.
	Doors map[string]http.Handler
	// Numbers are for /metrics, and read when asked.
	Numbers []Number
	// Durations are further metrics.
	Durations []*Durations
}

// Number is a metric of another package, patchbay_NAME.
type Number struct {
	Name, Help string
	// Counter says that it only grows; its name ends in _total.
	Counter bool
	Value   func() float64
	// Labels are the names of labels. With them, Values is called instead of Value: it
	// calls add with each value and its labels, in order.
	Labels []string
	Values func(add func(value float64, labels ...string))
}

// Server answers calls on any number of listeners.
type Server struct {
	config Config
	opt    Options
	http   *http.Server
	admin  *http.Server
	remote *http.Server // health and metrics for other hosts
	socket *http.Server
	gate   *gate
	calls  chan struct{} // one element per call being worked on
	// callers counts the calls at once of each caller, from the end of the header to
	// the end of the answer. All strangers together are one caller, so that they
	// cannot starve those whom the site knows.
	callers *budget.Budget
	changes *rates // of calls that change something
	bodies  bodies
	answers *answers
	seldom  seldom
	metrics *metrics
	inside  atomic.Int64 // requests in ServeHTTP
}

// New makes a server that is not listening yet.
func New(c Config, o Options) *Server {
	c = c.withDefaults()
	if n := affordable(c.MaxConnections); n < c.MaxConnections {
		o.Log.Warn("there will be fewer connections than limits.max_connections says, for the process may open too few files; raise its limit (ulimit -n, or LimitNOFILE of systemd)",
			"max_connections", c.MaxConnections, "connections", n)
		c.MaxConnections = n
	}
	s := &Server{
		config:  c,
		opt:     o,
		calls:   make(chan struct{}, c.MaxCalls),
		callers: budget.PerCaller(c.MaxCallsPerCaller),
		changes: newRates(c.MaxChangesPerMinute, c.MaxChangesBurst),
		bodies:  bodies{budget.New(c.MaxBodies, c.MaxBody)},
		answers: newAnswers(c.MaxAnswers, c.MaxAnswers/budget.Part),
	}
	s.gate = newGate(c.MaxConnections, c.MaxConnectionsPerAddress, c.MaxConnectionsPerCertificate, s.crowded)
	s.metrics = newMetrics(o, s.gate)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: c.HeaderTimeout,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.WriteTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, &peer{conn: c, guest: guestOf(c)})
		},
		ConnState: func(c net.Conn, now http.ConnState) {
			if in := guestOf(c); in != nil && now == http.StateIdle {
				s.gate.wait(in)
			}
		},
	}
	s.admin, s.socket, s.remote = s.within(s.AdminHandler()), s.within(s.SocketHandler()), s.within(s.remoteHandler())
	s.remote.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug) // handshakes of strangers
	return s
}

// Bounds on those on this host, any of whose users may connect. They are few and
// ask in one piece; none of their connections is worth more than a new one.
const (
	maxWithin           = 32
	withinHeaderTimeout = 5 * time.Second
	withinIdleTimeout   = 10 * time.Second
)

// doorWithin bounds the connections of one listener for them: beyond the bound
// the oldest ends, whatever is done on it.
func (s *Server) doorWithin(l net.Listener, name string, perAddress int) net.Listener {
	return s.limit(l, newGate(maxWithin, perAddress, maxWithin, func(_ string, source netip.Prefix) { s.crowded(name, source) }))
}

// within is a server for those on this host.
func (s *Server) within(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           s.guarded(h),
		ReadHeaderTimeout: min(s.config.HeaderTimeout, withinHeaderTimeout),
		ReadTimeout:       s.config.HeaderTimeout,
		WriteTimeout:      s.config.CallTimeout,
		IdleTimeout:       min(s.config.IdleTimeout, withinIdleTimeout),
		MaxHeaderBytes:    s.config.MaxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelWarn),
	}
}

// Serve answers calls on l until Shutdown; then, and only then, it returns nil.
func (s *Server) Serve(l net.Listener) error {
	done := make(chan struct{})
	var lines sync.WaitGroup
	lines.Go(func() { s.seldom.run(done) })
	defer lines.Wait()
	defer close(done)
	return closed(s.http.Serve(l))
}

// ServeAdmin answers /healthz, /readyz and /metrics on l until Shutdown.
func (s *Server) ServeAdmin(l net.Listener) error {
	return closed(s.admin.Serve(s.doorWithin(l, "admin_connections", maxWithin)))
}

// ServeRemote answers /healthz, /readyz and /metrics on l until Shutdown, if Admits allows
// it. secure wraps l in TLS.
func (s *Server) ServeRemote(l net.Listener, secure func(net.Listener) net.Listener) error {
	return closed(s.remote.Serve(secure(s.doorWithin(l, "metrics_connections", maxWithin/4))))
}

// ServeSocket answers /manifest, /maintenance and /held on l, which is only for the site's own user,
// until Shutdown.
func (s *Server) ServeSocket(l net.Listener) error {
	return closed(s.socket.Serve(s.doorWithin(l, "socket_connections", maxWithin)))
}

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
		err = errors.Join(err, s.http.Close(), s.settle())
	}
	s.seldom.flush(true)
	return errors.Join(err, s.admin.Close(), s.remote.Close(), s.socket.Close())
}

// settleTimeout is how long calls may take to see that their connection is gone.
const settleTimeout = 5 * time.Second

// settle waits until no call is at work any more: what they use is closed next.
func (s *Server) settle() error {
	for end := time.Now().Add(settleTimeout); s.inside.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d calls do not end", s.inside.Load())
		}
	}
	return nil
}
