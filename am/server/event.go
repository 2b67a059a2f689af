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
	"patchbay/am/display"
)

type event struct {
	id      string
	start   time.Time
	took    time.Duration
	counted bool // the metrics have counted it
	remote  string
	path    string
	target
	status   int
	received int // bytes
	sent     int // bytes
	answer   api.Event
	refused  string // the text of an HTTP error
	cause    error  // the panic, if one occurred outside the API
	unsent   error  // the reason why the answer could not be sent
	limit    string // the exceeded limit, if the answer was SERVERBUSY
	caller   string // from Options.CallerName; "" for an untrusted caller
	internal bool   // the call is of this process
}

// isUntrusted reports whether neither the server nor the API knows the caller by a trusted
// certificate.
func (e *event) isUntrusted() bool { return e.caller == "" && e.answer.Caller.IsZero() }

// source returns the network by which untrusted callers are counted.
func (e *event) source() string { return sourceName(e.remote) }

// sourceName returns the network of a remote address (see sourceOf), or the text itself if it is
// not an IP address with a port.
func sourceName(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	return sourceOf(net.TCPAddrFromAddrPort(ap)).String()
}

// Limits of texts in the log. Clients choose parts of these texts.
const (
	maxText  = 1 << 10 // bytes
	maxError = 8 << 10 // bytes; an error may contain the stack of a panic
)

// emit logs the event and adds it to the metrics. The events of untrusted callers from one
// network share a log line (see logThrottle).
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
	if !e.isUntrusted() {
		s.opt.Log.LogAttrs(context.Background(), level, msg, attrs...)
		return
	}
	s.throttle.count("log "+level.String(), e.source(), func(source string, times int) {
		s.opt.Log.LogAttrs(context.Background(), level, msg, append(attrs, slog.String("from", source), slog.Int("times", times))...)
	})
}

// line returns the line of the log about the event. Its message is "request" for an HTTP error, else "call".
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
		if value != "" {
			attrs = append(attrs, slog.String(key, display.Cut(value, most)))
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
	if e.service != "" {
		attrs = append(attrs, slog.String("service", e.service))
	} else {
		attrs = append(attrs, slog.Int("api", e.version))
	}
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
	if a.Err != nil && !strings.Contains(a.Output, a.Err.Error()) {
		add("error", a.Err.Error())
	}
	if e.unsent != nil {
		add("unsent", e.unsent.Error())
	}
	switch {
	case e.service != "":
		if a.Err != nil && !a.Fault {
			level = slog.LevelError
		}
	case a.Code == am.ServerError, a.Code == am.DBError, a.Code == am.RPCError:
		level = slog.LevelError
	}
	if e.internal && !a.Changes && level == slog.LevelInfo {
		level = slog.LevelDebug
	}
	return level, "call", attrs
}

// emitBusy logs a call that got SERVERBUSY. Clients repeat such calls, so those of one caller
// share a line (see logThrottle).
func (s *Server) emitBusy(e *event) {
	s.throttle.count("calls "+e.limit, cmp.Or(e.caller, "untrusted callers"), func(caller string, times int) {
		s.opt.Log.Warn("calls were refused with SERVERBUSY",
			"id", e.id, "remote", e.remote, "limit", e.limit, "caller", caller, slog.Int("times", times))
	})
}

// labels returns the labels of metrics. Unknown methods share one value, so the number of values
// does not depend on clients.
func (e *event) labels() (method, outcome string) {
	if e.status != http.StatusOK {
		return "none", "http_" + strconv.Itoa(e.status)
	}
	if e.service != "" {
		return "authority", map[bool]string{true: "fault", false: "answer"}[e.answer.Fault] // patchbay_authority_calls_total has more
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
