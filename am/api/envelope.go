package api

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/xmlrpc"
	"patchbay/credentials"
	"patchbay/rspec"
)

// codeOf is the one table from an error to what a client is told: first an
// error that carries its code, then those of the rooms below, then time and
// storage. What is left is our own fault, and its text is for the operator.
func codeOf(err error, request string) (am.Code, am.Detail, string) {
	if e, ok := errors.AsType[*am.Error](err); ok {
		return e.Code, e.Detail, e.Msg
	}
	if e, ok := errors.AsType[*credentials.DeniedError](err); ok {
		return am.Forbidden, e.Detail(), e.Error()
	}
	if e, ok := errors.AsType[*rspec.RequestError](err); ok {
		return requestCode[e.Kind], am.NoDetail, e.Error()
	}
	if e, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
		return e.Reasons[0].Code, e.Reasons[0].Detail, e.Error()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return am.TimedOut, am.NoDetail, "the call took too long; nothing was changed"
	case errors.Is(err, store.ErrInDoubt):
		return am.DBError, am.NoDetail, "the aggregate could not store the change, and does not know whether it will last; ask for the status before you try again (request " + request + ")"
	case errors.Is(err, store.ErrNotCommitted), errors.Is(err, store.ErrClosed):
		return am.DBError, am.NoDetail, "the aggregate could not store the change; nothing was changed (request " + request + ")"
	}
	return am.ServerError, am.NoDetail, internalError(request).Msg
}

// requestCode is what a request RSpec that cannot be taken is answered with.
var requestCode = map[rspec.Kind]am.Code{
	rspec.BadArgs: am.BadArgs, rspec.BadVersion: am.BadVersion, rspec.Unsupported: am.Unsupported, rspec.TooBig: am.TooBig,
}

func internalError(request string) *am.Error {
	return am.Errorf(am.ServerError, "internal error of the aggregate; its operators find the cause under request %s", request)
}

// refuse answers an error: its code, its text, and a value that is there because some
// clients insist on one.
func (c *call) refuse(err error) []byte {
	code, detail, text := codeOf(err, c.request.ID)
	c.event.Code, c.event.Detail, c.event.Output = code, detail, text
	if c.event.Err == nil {
		c.event.Err = err
	}
	body, err := xmlrpc.AppendResponse(nil, envelope(code, detail, "", oneLine(text), c.remnant()))
	if err != nil { // only strings and numbers: it cannot be
		panic(err)
	}
	return body
}

// ErrorBody is the body of an error that is found outside of the API: by the server,
// before or after a call of the version is served.
func ErrorBody(version int, code am.Code, output string) []byte {
	body, err := xmlrpc.AppendResponse(nil, envelope(code, am.NoDetail, "", output, xmlrpc.Struct{{Name: "geni_api", Value: version}}))
	if err != nil {
		return xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: int(code), Text: output})
	}
	return body
}

// success answers a value; nil if it cannot be encoded.
func (c *call) success(value xmlrpc.Value, notices []string) []byte {
	c.event.Output = oneLine(notices...)
	body, err := xmlrpc.AppendResponse(nil, envelope(am.Success, am.NoDetail, value, c.event.Output, c.remnant()))
	if err != nil {
		c.event.Err = err
		return nil
	}
	return body
}

// remnant is what GetVersion of version 1 had, and clients still look for before
// they read the rest, also of an error.
func (c *call) remnant() xmlrpc.Struct {
	if c.event.Method != "GetVersion" {
		return nil
	}
	return xmlrpc.Struct{{Name: "geni_api", Value: c.version}}
}

func envelope(code am.Code, detail am.Detail, value xmlrpc.Value, output string, extra xmlrpc.Struct) xmlrpc.Struct {
	fine := int(detail)
	if detail == am.NoDetail {
		fine = int(code)
	}
	return append(xmlrpc.Struct{
		{Name: "code", Value: xmlrpc.Struct{
			{Name: "geni_code", Value: int(code)},
			{Name: "am_type", Value: am.AMType},
			{Name: "am_code", Value: fine},
		}},
		{Name: "value", Value: value},
		{Name: "output", Value: output},
	}, extra...)
}

// oneLine joins texts. Clients show them as they are, on a line, and old ones
// fail on a string that is not ASCII, so what a text quotes of a request, or a
// provider says, has its other characters by number, but for the sign by which
// texts of ours say that they are cut.
func oneLine(texts ...string) string {
	s := strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
	s = strings.ReplaceAll(s, "…", "...")
	return byNumber(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// byNumber writes characters of the kind given by their numbers.
func byNumber(s string, kind func(rune) bool) string {
	if !strings.ContainsFunc(s, kind) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if kind(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// extent is how much a method tells of slivers.
type extent int

const (
	changes extent = iota // why this call did not change one
	states                // or else the last thing that failed
	details               // and what providers tell of services and links
)

// sliver is the struct of one sliver. All times and states are always there:
// clients insist on them.
func sliver(r *service.Report, e extent) xmlrpc.Struct {
	failure := r.Failed
	if failure == "" && e >= states {
		failure = r.Error
	}
	s := xmlrpc.Struct{
		{Name: "geni_sliver_urn", Value: r.URN.String()},
		{Name: "geni_expires", Value: formatTime(r.Expires)},
		{Name: "geni_allocation_status", Value: string(r.Status.Allocation)},
		{Name: "geni_operational_status", Value: string(r.Status.Operational)},
		{Name: "geni_error", Value: oneLine(failure)},
	}
	if r.ClientID != "" {
		s = append(s, xmlrpc.Member{Name: "geni_client_id", Value: r.ClientID})
	}
	if m := cmp.Or(r.Observed.Message, r.StepProgress()); m != "" {
		s = append(s, xmlrpc.Member{Name: "geni_resource_status", Value: oneLine(m)})
	}
	return s
}

func slivers(out service.Outcome, e extent) []xmlrpc.Value {
	list := make([]xmlrpc.Value, len(out.Slivers))
	t := newTeller()
	for i := range out.Slivers {
		s := sliver(&out.Slivers[i], e)
		if e >= details {
			s = t.add(s, &out.Slivers[i])
		}
		list[i] = s
	}
	return list
}
