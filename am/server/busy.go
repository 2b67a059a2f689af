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

// Further limits, by their keys in the configuration.
const (
	limitCalls     = "max_calls"
	limitPerCaller = "max_calls_per_caller"
	limitBodies    = "max_bodies"
	limitAnswers   = "max_answers"
	limitChanges   = "max_changes_per_minute"
)

// admit lets a call in, until leave is called, or names the limit that it would
// break. Nothing of its body has been read yet.
func (s *Server) admit(p *peer) (leave func(), limit string) {
	switch {
	case p.guest != nil && p.cert != nil && !s.gate.certify(p.guest, *p.cert):
		return nil, limitPerCertificate
	case !s.answers.room(p.caller):
		return nil, limitAnswers
	case !s.callers.Take(p.caller, 1, 0):
		return nil, limitPerCaller
	}
	caller := p.caller
	return func() { s.callers.Give(caller, 1) }, ""
}

// busy answers SERVERBUSY, on which clients try again by themselves; they do
// not on an HTTP status.
func (s *Server) busy(w http.ResponseWriter, p *peer, e *event, limit string) {
	e.limit = limit
	s.metrics.limited.WithLabelValues(limit).Inc() // before the answer, so that who has it finds it counted
	output := s.busyText(p, limit)
	if limit == limitPerCertificate {
		w.Header().Set("Connection", "close")
	}
	// What was not read of the call net/http reads now, before it sends the answer.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.StallTimeout))
	s.tell(w, e, am.ServerBusy, output, nil)
}

func (s *Server) busyText(p *peer, limit string) string {
	switch {
	case limit == limitPerCaller && p.caller == "":
		return "too many calls come from users whom no authority trusted here vouches for; try again later"
	case limit == limitPerCaller:
		return fmt.Sprintf("%d of your calls are being worked on, which is the most at one time; try again later", s.config.MaxCallsPerCaller)
	case limit == limitPerCertificate:
		return fmt.Sprintf("%d connections use your certificate, which is the most; end some, or try again later", s.config.MaxConnectionsPerCertificate)
	case limit == limitChanges:
		return fmt.Sprintf("you have made too many calls that change something: %d are allowed at once, and then %d a minute; try again later", s.config.MaxChangesBurst, s.config.MaxChangesPerMinute)
	case limit == limitAnswers:
		return "too many answers have not been read yet, by you or by others; try again later"
	case limit == limitBodies:
		return "too many large calls are being received, from you or from others; try again later"
	}
	return "the server is busy with other calls; try again later"
}

// tell answers an envelope of the server's own.
func (s *Server) tell(w http.ResponseWriter, e *event, code am.Code, output string, cause error) {
	body := api.ErrorBody(e.version, code, output)
	e.status, e.sent = http.StatusOK, len(body)
	e.answer = api.Event{Code: code, Output: output, Err: cause}
	s.metrics.count(e)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	e.unsent = s.send(w, body, e.start.Add(s.config.WriteTimeout))
}

// crowded counts a connection that was ended or refused for a limit, and says
// so now and then.
func (s *Server) crowded(limit string, source netip.Prefix) {
	s.metrics.limited.WithLabelValues(limit).Inc()
	s.seldom.count(limit, "", func(_ string, times int) {
		of := source.String()
		if !source.IsValid() {
			of = "this host"
		}
		s.opt.Log.Warn("connections were ended or refused: there are too many", "limit", limit, "of", of, slog.Int("times", times))
	})
}
