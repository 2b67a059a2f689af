package api

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/credentials"
	"patchbay/rspec"
)

// codeOf returns the codes and the text of the answer for an error. An unknown error is an internal error, whose text only
// the operator sees. request is the request id.
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
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return am.TimedOut, am.NoDetail, "the call took too long; nothing was changed"
	case errors.Is(err, store.ErrInDoubt):
		return am.DBError, am.NoDetail, "storing the change failed, and it may take effect nevertheless; check the status before you try again (request " + request + ")"
	case errors.Is(err, store.ErrNotCommitted), errors.Is(err, store.ErrClosed):
		return am.DBError, am.NoDetail, "the aggregate could not store the change; nothing was changed (request " + request + ")"
	}
	return am.ServerError, am.NoDetail, internalError(request).Msg
}

var requestCode = map[rspec.Kind]am.Code{
	rspec.BadArgs: am.BadArgs, rspec.BadVersion: am.BadVersion, rspec.Unsupported: am.Unsupported, rspec.TooBig: am.TooBig,
}

// internalError returns the error that experimenters see instead of an internal error.
func internalError(request string) *am.Error {
	return am.Errorf(am.ServerError, "internal error of the aggregate; its operators can find the cause in the log by the request id %s", request)
}

// refuse returns the body of an answer with an error, and sets the error in the event. The value has the times at which
// the request would succeed; it is an empty text if none is known, because some clients require a value.
func (c *call) refuse(err error) []byte {
	code, detail, text := codeOf(err, c.request.ID)
	c.event.Code, c.event.Detail, c.event.Output = code, detail, text
	if c.event.Err == nil {
		c.event.Err = err
	}
	var value xmlrpc.Value = ""
	if times := timesOf(err); times != nil {
		value = times
	}
	body, err := xmlrpc.AppendResponse(nil, envelope(code, detail, value, oneLine(strings.Split(text, "\n")...), c.versionMember()))
	if err != nil { // impossible: it holds only strings and numbers
		panic(err)
	}
	return body
}

// timesOf returns the times of an error at which the request would succeed.
func timesOf(err error) (times xmlrpc.Struct) {
	e, ok := errors.AsType[*am.Error](err)
	if ok && !e.FirstStart.IsZero() {
		times = append(times, xmlrpc.Member{Name: "patchbay_first_start", Value: FormatTime(e.FirstStart)})
	}
	if ok && !e.LongestEnd.IsZero() {
		times = append(times, xmlrpc.Member{Name: "patchbay_longest_end", Value: FormatTime(e.LongestEnd)})
	}
	return times
}

// ErrorBody returns the body for an error that the server finds before it passes a call to
// the API, or after the API has answered.
func ErrorBody(version int, code am.Code, output string) []byte {
	body, err := xmlrpc.AppendResponse(nil, envelope(code, am.NoDetail, "", output, xmlrpc.Struct{{Name: "geni_api", Value: version}}))
	if err != nil {
		return xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: int(code), Text: output})
	}
	return body
}

// success returns nil if the value cannot be encoded.
func (c *call) success(value xmlrpc.Value, notices []string) []byte {
	c.event.Output = oneLine(notices...)
	body, err := xmlrpc.AppendResponse(nil, envelope(am.Success, am.NoDetail, value, c.event.Output, c.versionMember()))
	if err != nil {
		c.event.Err = err
		return nil
	}
	return body
}

// versionMember returns the member geni_api for answers of GetVersion. Clients look for it
// at the top level of the answer, as in version 1, even in an error.
func (c *call) versionMember() xmlrpc.Struct {
	if c.event.Method != "GetVersion" {
		return nil
	}
	return xmlrpc.Struct{{Name: "geni_api", Value: c.version}}
}

// envelope returns the struct of code, value and output, followed by the members of extra.
// am_code is the detail, or the code itself if there is no detail.
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

// oneLine joins texts to one line of ASCII, because clients show the line unchanged and old
// clients fail on other characters. It writes "…" as "..." and escapes all other non-ASCII
// and control characters, which come from requests and providers.
func oneLine(texts ...string) string {
	s := strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
	s = strings.ReplaceAll(s, "…", "...")
	return escape(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// escape writes escape sequences such as \u00e4.
func escape(s string, isSpecial func(rune) bool) string {
	if !strings.ContainsFunc(s, isSpecial) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isSpecial(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// extent is the amount of data about slivers in an answer. Each extent includes the extents
// before it.
type extent int

const (
	changes extent = iota // geni_error is the reason why this call did not change a sliver
	states                // without such a reason, geni_error is the sliver's last failure
	details               // services and interfaces are added as providers report them
)

// sliver returns the struct of a sliver in answers. It always has all times and states, because clients require them.
func sliver(r *service.Report, e extent) xmlrpc.Struct {
	failure := r.Failed
	if failure == "" && e >= states {
		failure = r.Error
	}
	s := xmlrpc.Struct{
		{Name: "geni_sliver_urn", Value: r.URN.String()},
		{Name: "geni_expires", Value: FormatTime(r.Expires)},
		{Name: "geni_allocation_status", Value: string(r.Status.Allocation)},
		{Name: "geni_operational_status", Value: string(r.Status.Operational)},
		{Name: "geni_error", Value: oneLine(failure)},
	}
	s = append(s, windowOf(r)...)
	if r.ClientID != "" {
		s = append(s, xmlrpc.Member{Name: "geni_client_id", Value: r.ClientID})
	}
	m := cmp.Or(r.Observed.Message, r.StepProgress())
	if r.Plan != "" {
		m = strings.TrimSuffix(r.Plan+"; "+m, "; ")
	}
	if m != "" {
		s = append(s, xmlrpc.Member{Name: "geni_resource_status", Value: oneLine(m)})
	}
	return s
}

// windowOf returns the start and the end of a reservation that begins later than it was made, or began so.
func windowOf(r *service.Report) xmlrpc.Struct {
	if r.Begins.IsZero() {
		return nil
	}
	return xmlrpc.Struct{{Name: "geni_start_time", Value: FormatTime(r.Begins)}, {Name: "geni_end_time", Value: FormatTime(r.Ends)}}
}

func slivers(out service.Outcome, e extent) []xmlrpc.Value {
	list := make([]xmlrpc.Value, len(out.Slivers))
	t := newDetailWriter()
	for i := range out.Slivers {
		s := sliver(&out.Slivers[i], e)
		if e >= details {
			s = t.add(s, &out.Slivers[i])
		}
		list[i] = s
	}
	return list
}
