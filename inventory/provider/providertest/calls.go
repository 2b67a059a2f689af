package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// get calls get and checks its duration.
func (s *suite) get(names ...string) (map[string]provider.Result, error) {
	defer s.checkDuration("get", time.Now())
	return s.p.Get(s.ctx, names)
}

// getAll gets all resources. ok is false if that fails. If the provider reports that it cannot list its
// resources, found is nil and ok is true.
func (s *suite) getAll() (found map[string]provider.Result, ok bool) {
	found, err := s.get()
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Kind == provider.Unsupported && e.Err == nil {
		s.note(ruleGet, "it cannot list all its resources: %v; Patchbay never finds its orphaned resources", detail(err))
		return nil, true
	}
	if err != nil {
		s.wrong(ruleGet, "a get of all resources fails: %v", detail(err))
	}
	return found, err == nil
}

// set calls set and checks its duration.
func (s *suite) set(noop bool, updates ...provider.Update) ([]provider.Change, error) {
	defer s.checkDuration("set", time.Now())
	return s.p.Set(s.ctx, updates, noop)
}

// firstError returns the error of a set, or the first error in its changes.
func firstError(changes []provider.Change, err error) error {
	for _, c := range changes {
		if err == nil && c.Err != nil {
			err = c.Err
		}
	}
	return err
}

// checkDuration notes calls that take more than half of their time limit. Calls beyond
// the limit fail anyway.
func (s *suite) checkDuration(action string, begun time.Time) {
	took, limit := time.Since(begun), s.p.Timeout(action)
	if took > limit/2 && took < limit {
		s.note(ruleState, "a %s took %v, and its time limit is %v; answer sooner, or raise timeouts in the metadata", action, took.Round(time.Millisecond), limit)
	}
}

// listener is a log handler that converts log records of package provider, which include
// the provider's standard error, to findings.
type listener struct {
	slog.Handler
	s *suite
}

// listen returns a logger that records findings and passes its records on to log.
func (s *suite) listen(log *slog.Logger) *slog.Logger {
	if log == nil {
		log = slog.Default()
	}
	return slog.New(listener{log.Handler(), s})
}

// Enabled returns true, so that Handle sees records of every level.
func (l listener) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns a listener whose handler has the attributes.
func (l listener) WithAttrs(a []slog.Attr) slog.Handler {
	return listener{l.Handler.WithAttrs(a), l.s}
}

// WithGroup returns a listener whose handler has the group.
func (l listener) WithGroup(name string) slog.Handler {
	return listener{l.Handler.WithGroup(name), l.s}
}

// Handle records the finding for a log record. It also logs the record, unless the error of
// the call says the same.
func (l listener) Handle(ctx context.Context, r slog.Record) error {
	attributes := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { attributes[a.Key] = a.Value.String(); return true })
	switch text := r.Message; {
	case strings.HasPrefix(text, "left a process behind"):
		l.s.wrong(ruleCalls, "it %s, as in: setsid ./install pc1 </dev/null >>NAME.log 2>&1 &", text)
	case strings.HasPrefix(text, "an attribute has a number"):
		l.s.note(ruleGet, "%s is the number %s and must be a string; put it into quotes", attributes["attribute"], attributes["value"])
	case strings.HasPrefix(text, "an attribute cannot be used"), strings.HasPrefix(text, "the call of a provider has no usable answer"):
		return nil // the error of the call reports it, and some calls are killed on purpose
	case strings.HasPrefix(text, "wrote too many lines"):
		l.s.note(ruleCalls, "it %s; write less", text)
	case r.Level >= slog.LevelWarn:
		l.s.note(ruleCalls, "standard error has a warning or an error: %.200q; a line counts as a warning unless it begins with debug:, info: or error:", text)
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// trace records notes about mistakes in an answer that the manager tolerates. Other
// mistakes are errors of the call.
func (s *suite) trace(action string, out []byte) {
	var answer struct {
		Error     json.RawMessage
		Resources []map[string]json.RawMessage
		Changes   []map[string]json.RawMessage
	}
	if json.Unmarshal(out, &answer) != nil {
		return
	}
	s.traceError(answer.Error)
	for _, entry := range append(answer.Resources, answer.Changes...) {
		s.traceError(entry["error"])
		for _, name := range slices.Sorted(maps.Keys(entry)) {
			a, ok := s.p.Attributes[name]
			switch {
			case name == provider.AttrName || name == "error":
			case !ok:
				s.note(action, "the answer has the attribute %.80q, which is ignored because the metadata do not declare it; declare it or leave it out", name)
			case action == "get" && a.Kind == "w":
				s.note(action, "the answer has the attribute %s, which is declared as write-only (w); leave it out", name)
			}
		}
	}
}

// traceError records notes about an unknown kind, and about a message that is missing, too long
// or of several lines.
func (s *suite) traceError(raw json.RawMessage) {
	var e *struct{ Message, Kind string }
	if len(raw) == 0 || json.Unmarshal(raw, &e) != nil || e == nil {
		return
	}
	switch provider.Kind(e.Kind) {
	case provider.Unknown, provider.Forbidden, provider.Unsupported, provider.Full, provider.Failed, "":
	default:
		s.note(ruleErrors, "there is no kind %.80q, so the error counts as failed; write unknown, forbidden, unsupported, full or failed", e.Kind)
	}
	switch {
	case strings.TrimSpace(e.Message) == "":
		s.note(ruleErrors, "an error has no message; write one line that says what an experimenter can do")
	case len(e.Message) > 1000 || strings.ContainsAny(strings.TrimSpace(e.Message), "\n\r"):
		s.note(ruleErrors, "a message has %d bytes and %d lines; it is shown to experimenters as one line of at most 1,000 bytes, so put the rest on standard error", len(e.Message), strings.Count(strings.TrimSpace(e.Message), "\n")+1)
	}
}
