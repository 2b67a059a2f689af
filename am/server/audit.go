package server

import (
	"errors"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/follow/audit"
)

// audit passes a call that may have changed something to Options.Audit, before its answer is
// sent. Calls of untrusted callers are all refused. Those from one address within a minute share
// one audit line, which has their number.
func (s *Server) audit(e *event) {
	a := &e.answer
	if s.opt.Audit == nil || !a.Changes {
		return
	}
	code := int(a.Code)
	if fault, ok := errors.AsType[*xmlrpc.Fault](a.Err); ok && a.Fault {
		code = fault.Code
	}
	call := audit.Call{
		ID: e.id, Method: a.Method, Service: a.Service, API: e.version, Remote: e.remote, Caller: a.Caller, Speaker: a.Speaker,
		Slice: a.Slice, Slivers: a.Slivers, Credentials: a.Credentials, Code: code, Detail: a.Detail, Fault: a.Fault, Output: a.Output,
	}
	if !e.isUntrusted() {
		s.opt.Audit(call)
		return
	}
	s.throttle.count("audit", e.source(), func(source string, times int) {
		call.From, call.Times = source, times
		s.opt.Audit(call)
	})
}
