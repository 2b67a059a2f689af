package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api"
)

// event is what is known of one request when it is over.
type event struct {
	id       string
	start    time.Time
	took     time.Duration // until it was over
	counted  bool          // by the metrics
	remote   string
	path     string
	version  int
	status   int
	received int // bytes
	sent     int // bytes
	answer   api.Event
	refused  string // why it was no call
	cause    error  // of a panic outside the API
	unsent   error  // why the answer did not get through
	limit    string // for which the caller was told to come back
	caller   string // the name that Options.Who has given; "" for a stranger
}

// isStranger says that no anchor vouches for the caller, as far as is known.
func (e *event) isStranger() bool { return e.caller == "" && e.answer.Caller.IsZero() }

// source is the address or network that strangers are counted by.
func (e *event) source() string { return sourceText(e.remote) }

// sourceText is the address or network of a remote address, as far as it has one.
func sourceText(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	return sourceOf(net.TCPAddrFromAddrPort(ap)).String()
}

// Bounds on texts in the log, which clients have a part in.
const (
	maxText  = 1 << 10 // bytes
	maxError = 8 << 10 // with the stack of a panic
)

// emit writes the event's line and its time, and counts it unless that is done.
func (s *Server) emit(e *event) {
	s.metrics.count(e)
	e.took = time.Since(e.start)
	method, _ := e.labels()
	s.metrics.seconds.WithLabelValues(method).Observe(e.took.Seconds())
	if e.limit != "" {
		s.emitBusy(e)
		return
	}

	level, msg, attrs := e.line()
	if !e.isStranger() {
		s.opt.Log.LogAttrs(context.Background(), level, msg, attrs...)
		return
	}
	s.seldom.count("log "+level.String(), e.source(), func(source string, times int) {
		s.opt.Log.LogAttrs(context.Background(), level, msg, append(attrs, slog.String("from", source), slog.Int("times", times))...)
	})
}

// line is the event's line in the log.
func (e *event) line() (level slog.Level, msg string, attrs []slog.Attr) {
	level = slog.LevelInfo
	attrs = []slog.Attr{
		slog.String("id", e.id),
		slog.String("remote", e.remote),
		slog.Int("status", e.status),
		slog.Duration("took", e.took.Round(time.Microsecond)),
	}
	add := func(key, value string) {
		most := maxText
		if key == "error" {
			most = maxError
		}
		if len(value) > most {
			value = strings.ToValidUTF8(value[:most], "") + "..."
		}
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if e.status != http.StatusOK {
		add("path", e.path)
		add("refused", e.refused)
		if e.cause != nil {
			level = slog.LevelError
			add("error", e.cause.Error())
		}
		return level, "request", attrs
	}
	a := e.answer
	add("method", a.Method)
	attrs = append(attrs, slog.Int("api", e.version))
	if a.Fault {
		attrs = append(attrs, slog.Bool("fault", true))
	} else {
		attrs = append(attrs, slog.Int("code", int(a.Code)))
	}
	if a.Detail != am.NoDetail {
		attrs = append(attrs, slog.Int("detail", int(a.Detail)))
	}
	add("caller", a.Caller.String())
	add("speaker", a.Speaker.String())
	add("slice", a.Slice.String())
	if a.Slivers > 0 {
		attrs = append(attrs, slog.Int("slivers", a.Slivers))
	}
	if len(a.Credentials) > 0 {
		attrs = append(attrs, slog.Any("credentials", a.Credentials))
	}
	if a.SHA1 {
		attrs = append(attrs, slog.Bool("sha1", true))
	}
	if a.Findings > 0 {
		attrs = append(attrs, slog.Int("findings", a.Findings))
		add("finding", a.Finding)
	}
	add("output", a.Output)
	attrs = append(attrs, slog.Int("received", e.received), slog.Int("sent", e.sent))
	if a.Err != nil && !strings.Contains(a.Output, a.Err.Error()) { // the caller was not told all
		add("error", a.Err.Error())
	}
	if e.unsent != nil {
		add("unsent", e.unsent.Error())
	}
	switch a.Code {
	case am.ServerError, am.DBError, am.RPCError:
		level = slog.LevelError
	}
	return level, "call", attrs
}

// emitBusy writes a line for many: whoever is told to come back does.
func (s *Server) emitBusy(e *event) {
	s.seldom.count("calls "+e.limit, cmp.Or(e.caller, "strangers"), func(caller string, times int) {
		s.opt.Log.Warn("calls were answered that the server is busy",
			"id", e.id, "remote", e.remote, "limit", e.limit, "caller", caller, slog.Int("times", times))
	})
}

// labels are the method and the outcome as metrics name them; few, whatever
// clients send.
func (e *event) labels() (method, outcome string) {
	if e.status != http.StatusOK {
		return "none", "http_" + strconv.Itoa(e.status)
	}
	method = "unknown"
	if api.IsMethod(e.answer.Method) {
		method = e.answer.Method
	}
	if e.answer.Fault {
		return method, "fault"
	}
	return method, e.answer.Code.String()
}
