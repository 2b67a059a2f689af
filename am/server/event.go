package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
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
	caller   string // who that was; "" for a stranger
}

// emit writes the event's line and counts it.
func (s *Server) emit(e *event) {
	took := time.Since(e.start)
	s.metrics.count(e, took)
	if e.limit != "" {
		s.emitBusy(e)
		return
	}

	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("id", e.id),
		slog.String("remote", e.remote),
		slog.Int("status", e.status),
		slog.Duration("took", took.Round(time.Microsecond)),
	}
	add := func(key, value string) {
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
		s.opt.Log.LogAttrs(context.Background(), level, "request", attrs...)
		return
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
	s.opt.Log.LogAttrs(context.Background(), level, "call", attrs...)
}

// emitBusy writes a line for many: whoever is told to come back does.
func (s *Server) emitBusy(e *event) {
	if n, ok := s.seldom.may("calls " + e.limit); ok {
		s.opt.Log.Warn("calls were answered that the server is busy",
			"id", e.id, "remote", e.remote, "limit", e.limit, "caller", cmp.Or(e.caller, "strangers"), slog.Int("times", n))
	}
}

// labels are the method and the outcome as metrics name them; few, whatever
// clients send.
func (e *event) labels() (method, outcome string) {
	if e.status != http.StatusOK {
		return "none", "http_" + strconv.Itoa(e.status)
	}
	method = "unknown"
	if known[e.answer.Method] {
		method = e.answer.Method
	}
	if e.answer.Fault {
		return method, "fault"
	}
	return method, strconv.Itoa(int(e.answer.Code))
}

// known are the methods of all versions of the API.
var known = func() map[string]bool {
	m := make(map[string]bool)
	for _, name := range []string{
		"GetVersion", "ListResources", "Shutdown",
		"CreateSliver", "DeleteSliver", "RenewSliver", "SliverStatus",
		"Allocate", "Provision", "Describe", "Status", "Renew", "Delete", "PerformOperationalAction",
	} {
		m[name] = true
	}
	return m
}()
