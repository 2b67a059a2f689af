package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"patchbay/am"
	"patchbay/am/api"
)

// Limits of calls; the values are the keys in the configuration.
const (
	limitCalls     = "max_calls"
	limitPerCaller = "max_calls_per_caller"
	limitBodies    = "max_bodies"
	limitAnswers   = "max_answers"
	limitChanges   = "max_changes_per_minute"
	limitStall     = "stall_timeout"
)

// admit counts a call until release is called. Above a limit, admit returns the limit's name and
// a nil release. Call admit before the body is read.
func (s *Server) admit(p *peer) (release func(), limit string) {
	switch {
	case p.tracked != nil && p.cert != nil && !s.limiter.addCertificate(p.tracked, *p.cert):
		return nil, limitPerCertificate
	case !s.answers.hasRoom(p.caller):
		return nil, limitAnswers
	case !s.callers.Take(p.caller, 1, 0):
		return nil, limitPerCaller
	}
	caller := p.caller
	return func() { s.callers.Release(caller, 1) }, ""
}

// answerBusy answers with the code SERVERBUSY. Clients retry automatically on this code, but not
// on an HTTP status.
func (s *Server) answerBusy(w http.ResponseWriter, p *peer, e *event, limit string) {
	e.limit = limit
	s.metrics.limited.WithLabelValues(limit).Inc() // before the answer: a client that has the answer must find its call in the metrics
	output := s.busyText(p, limit)
	if limit == limitPerCertificate {
		w.Header().Set("Connection", "close")
	}
	// net/http reads the rest of the call before it sends the answer. The deadline limits that.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.StallTimeout))
	s.writeEnvelope(w, e, am.ServerBusy, output, nil)
}

func (s *Server) busyText(p *peer, limit string) string {
	switch {
	case limit == limitPerCaller && p.caller == "":
		return "there are too many calls from users without a certificate of a trusted authority; try again later"
	case limit == limitPerCaller:
		return fmt.Sprintf("%d of your calls are being processed, the maximum at one time; try again later", s.config.MaxCallsPerCaller)
	case limit == limitPerCertificate:
		return fmt.Sprintf("%d connections use your certificate, the maximum; close some, or try again later", s.config.MaxConnectionsPerCertificate)
	case limit == limitChanges:
		return fmt.Sprintf("you have made too many calls that change something: %d are allowed at once, and then %d a minute; try again later", s.config.MaxChangesBurst, s.config.MaxChangesPerMinute)
	case limit == limitAnswers:
		return "the server still has too many answers to send, to you or to others; try again later"
	case limit == limitBodies:
		return "too many large calls are being received, from you or from others; try again later"
	}
	return "the server is busy with other calls; try again later"
}

// writeEnvelope answers a call with an error of the server, not of the API.
func (s *Server) writeEnvelope(w http.ResponseWriter, e *event, code am.Code, output string, cause error) {
	body := s.errorBody(e, code, output)
	e.status, e.sent = http.StatusOK, len(body)
	e.answer = api.Event{Code: code, Output: output, Err: cause}
	s.metrics.count(e)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	e.unsent = s.send(w, body, e.start.Add(s.config.WriteTimeout))
}

func (s *Server) errorBody(e *event, code am.Code, output string) []byte {
	if e.service != "" {
		return s.opt.Authority.ErrorBody(output)
	}
	return api.ErrorBody(e.version, code, output)
}

// connectionClosed writes at most one log line a minute for each limit.
func (s *Server) connectionClosed(limit string, source netip.Prefix) {
	s.metrics.limited.WithLabelValues(limit).Inc()
	s.throttle.count(limit, "", func(_ string, times int) {
		from := source.String()
		if !source.IsValid() {
			from = "this host"
		}
		s.opt.Log.Warn("connections were closed or refused: there are too many", "limit", limit, "from", from, slog.Int("times", times))
	})
}
