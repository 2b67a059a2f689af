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
	"patchbay/am/follow/audit"
	"patchbay/am/service/budget"
)

// API processes calls; package api implements it. Serve always returns a body, even for an
// error.
type API interface {
	Serve(ctx context.Context, version int, r api.Request) api.Response
}

// Authority processes the calls of the site's trial authority; package authority implements it.
type Authority interface {
	// Name returns the name of the service at a path; "" if there is none.
	Name(path string) string
	Serve(ctx context.Context, path string, r api.Request) api.Response
	// ErrorBody is like the function of package api.
	ErrorBody(text string) []byte
}

// Options are the functions of other packages that the server calls, and the metrics of other
// packages.
type Options struct {
	API API
	// Authority is nil if the site has none. If AuthorityInProcess is true, only calls of this process
	// (see Server.InProcess) reach it.
	Authority          Authority
	AuthorityInProcess bool
	// Log receives one line per request. The requests of untrusted callers from one address
	// within a minute share a line.
	Log *slog.Logger
	// Audit receives each call that may have changed something, before its answer is sent; nil
	// for none. The calls of untrusted callers from one address within a minute are passed as one
	// call with their number.
	Audit func(audit.Call)
	// PublicURL is the URL of the server for clients, https://host:port without a slash at
	// the end. Error texts show it.
	PublicURL string
	// Chain returns the raw certificate chain of a connection's peer, leaf first. The server
	// calls Chain while it serves a request of that connection.
	Chain func(net.Conn) [][]byte
	// CallerName returns the name under which the calls of a caller with this chain are counted;
	// "" for an untrusted caller. Each user has one name. If CallerName is nil, all callers are
	// untrusted. The server calls CallerName before it applies any limit of calls. So CallerName
	// must limit the work that untrusted callers at one address cause. remote is nil if the
	// connection is unknown.
	CallerName func(remote net.Addr, chain [][]byte) string
	// AllowsRemote reports whether a monitor on another host may read health and metrics; nil
	// refuses all.
	AllowsRemote func(*http.Request) bool
	// Ready returns the reason why the site cannot serve calls; nil if it can.
	Ready func() error
	// Manifest takes the URN of a sliver and returns the manifest of its slice, or an
	// am.Error.
	Manifest func(sliver string) ([]byte, error)
	// SocketHandlers are further handlers at the socket; the keys are patterns of
	// http.ServeMux. Only the site's own user can reach the socket.
	SocketHandlers map[string]http.Handler
	// Numbers are metrics that are read at each request of /metrics.
	Numbers []Number
	// Durations are further histograms.
	Durations []*Durations
}

// Number is a metric of another package, patchbay_NAME.
type Number struct {
	Name, Help string
	// Counter means that the number only grows. Then its name must end in _total.
	Counter bool
	Value   func() float64
	// Labels are the names of labels. With labels, the server calls Values instead of Value.
	// Values calls add with each value and the values of its labels, in the order of Labels.
	Labels []string
	Values func(add func(value float64, labels ...string))
}

// Server answers calls on any number of listeners.
type Server struct {
	config  Config
	opt     Options
	http    *http.Server
	admin   *http.Server
	remote  *http.Server // health and metrics for other hosts
	socket  *http.Server
	pages   *http.Server
	limiter *connLimiter
	calls   chan struct{} // one element per call in progress
	// authorityCalls has one element per call of the authority in progress.
	authorityCalls chan struct{}
	// callers counts the calls of each caller from the end of the header to the end of the
	// answer. All untrusted callers count as one, so that they cannot starve trusted ones.
	callers *budget.Budget
	changes *rates
	// authorityChanges limits the callers of the authority.
	authorityChanges *rates
	bodies           bodies
	answers          *answerMemory
	throttle         logThrottle
	metrics          *metrics
	active           atomic.Int64 // requests in ServeHTTP, and for pages

	streaming   sync.Mutex     // guards streams and streamCount
	streams     map[string]int // open streams of events by caller
	streamCount int
	serving     context.Context // ends when Shutdown begins
	endStreams  context.CancelFunc
}

// New returns a server that is not listening yet.
func New(c Config, o Options) *Server {
	c = c.withDefaults()
	if n := affordableConnections(c.MaxConnections); n < c.MaxConnections {
		o.Log.Warn("fewer connections than limits.max_connections are possible, because the process may open too few files; raise its limit (ulimit -n, or LimitNOFILE of systemd)",
			"max_connections", c.MaxConnections, "connections", n)
		c.MaxConnections = n
	}
	s := &Server{
		config: c,
		opt:    o,
		calls:  make(chan struct{}, c.MaxCalls),

		authorityCalls:   make(chan struct{}, maxAuthorityCalls),
		authorityChanges: newRates(c.MaxChangesPerMinute, c.MaxChangesBurst),

		callers: budget.PerCaller(c.MaxCallsPerCaller),
		changes: newRates(c.MaxChangesPerMinute, c.MaxChangesBurst),
		bodies:  bodies{budget.New(c.MaxBodies, c.MaxBody)},
		answers: newAnswerMemory(c.MaxAnswers, c.MaxAnswers/budget.ShareDivisor),
		streams: map[string]int{},
	}
	s.limiter = newConnLimiter(c.MaxConnections, c.MaxConnectionsPerAddress, c.MaxConnectionsPerCertificate, s.connectionClosed)
	s.metrics = newMetrics(o, s.limiter)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: c.HeaderTimeout,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.WriteTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ConnContext:       withPeer,
		ConnState:         s.endIdleCall,
	}
	s.pages = s.newPageServer()
	s.serving, s.endStreams = context.WithCancel(context.Background())
	s.admin, s.socket, s.remote = s.localServer(s.AdminHandler()), s.localServer(s.SocketHandler()), s.localServer(s.remoteHandler())
	s.remote.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug) // any host can cause lines about failed handshakes
	return s
}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{conn: c, tracked: trackedConnOf(c)})
}

// endIdleCall lets the limiter know that a connection has no call in progress.
func (s *Server) endIdleCall(c net.Conn, now http.ConnState) {
	if in := trackedConnOf(c); in != nil && now == http.StateIdle {
		s.limiter.endCall(in)
	}
}

// Limits of the local listeners. Their clients are few and send short requests.
const (
	maxLocalConnections = 32
	localHeaderTimeout  = 5 * time.Second
	localIdleTimeout    = 10 * time.Second
)

// limitLocal limits the connections of a local listener. At the limit, a new connection replaces
// the one that has waited longest. name is the limit's name in the metrics.
func (s *Server) limitLocal(l net.Listener, name string, perAddress int) net.Listener {
	return s.limit(l, newConnLimiter(maxLocalConnections, perAddress, maxLocalConnections, func(_ string, source netip.Prefix) { s.connectionClosed(name, source) }))
}

func (s *Server) localServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           s.recoverHandler(h),
		ReadHeaderTimeout: min(s.config.HeaderTimeout, localHeaderTimeout),
		ReadTimeout:       s.config.HeaderTimeout,
		WriteTimeout:      s.config.CallTimeout,
		IdleTimeout:       min(s.config.IdleTimeout, localIdleTimeout),
		MaxHeaderBytes:    s.config.MaxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelWarn),
	}
}

// Serve answers calls on l until Shutdown, and then returns nil. It returns an error if it cannot
// continue before.
func (s *Server) Serve(l net.Listener) error {
	done := make(chan struct{})
	var lines sync.WaitGroup
	lines.Go(func() { s.throttle.run(done) })
	defer lines.Wait()
	defer close(done)
	return ignoreClosed(s.http.Serve(l))
}

// ServeAdmin answers /healthz, /readyz and /metrics on l until Shutdown.
func (s *Server) ServeAdmin(l net.Listener) error {
	return ignoreClosed(s.admin.Serve(s.limitLocal(l, "admin_connections", maxLocalConnections)))
}

// ServeRemote answers /healthz, /readyz and /metrics on l until Shutdown, for requests
// that AllowsRemote allows. secure wraps l in TLS.
func (s *Server) ServeRemote(l net.Listener, secure func(net.Listener) net.Listener) error {
	return ignoreClosed(s.remote.Serve(secure(s.limitLocal(l, "metrics_connections", maxLocalConnections/4))))
}

// ServeSocket serves SocketHandler on l until Shutdown. No user but the site's own may have
// access to l.
func (s *Server) ServeSocket(l net.Listener) error {
	return ignoreClosed(s.socket.Serve(s.limitLocal(l, "socket_connections", maxLocalConnections)))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting calls and waits for the calls in progress. When ctx ends, it closes
// the connections of these calls and returns an error. The admin listener and the socket stay
// open until the calls have ended, so that operators can observe them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endStreams()
	err := errors.Join(s.pages.Shutdown(ctx), s.http.Shutdown(ctx))
	if err != nil {
		err = errors.Join(err, s.pages.Close(), s.http.Close(), s.awaitCalls())
	}
	s.throttle.flush(true)
	return errors.Join(err, s.admin.Close(), s.remote.Close(), s.socket.Close())
}

// activeTimeout is for calls whose connection was closed.
const activeTimeout = 5 * time.Second

// awaitCalls returns an error after activeTimeout.
func (s *Server) awaitCalls() error {
	for end := time.Now().Add(activeTimeout); s.active.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d calls have not ended", s.active.Load())
		}
	}
	return nil
}
