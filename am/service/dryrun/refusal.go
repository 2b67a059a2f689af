package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// unanswered returns an error with the provider's message for experimenters, but without
// errors of the host.
func unanswered(name string, err error) *am.Error {
	text := fmt.Sprintf("its provider %s did not answer", name)
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Msg != "" {
		text = e.Msg
	} else if errors.Is(err, provider.ErrNoPlace) {
		text = fmt.Sprintf("its provider %s is busy with other requests", name)
	}
	code := am.ServerError
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = am.TimedOut
	}
	remedy := "try again later"
	if s, ok := errors.AsType[*noAnswer](err); ok {
		after := s.until.Add(time.Second).UTC().Format(time.RFC3339) // the time is rounded up
		remedy = "that was less than a minute ago, and the dry run for this component is not repeated so soon; try again after " + after
	}
	return &am.Error{Code: code, Msg: text + "; " + remedy, Err: err}
}

// failedCall returns the error of each sliver if a call failed as a whole: the provider's refusal, or
// that it did not answer.
func failedCall(name string, err error) *am.Error {
	if e, ok := errors.AsType[*provider.Error](err); ok && refusals[e.Kind] != am.Success {
		return refused(e)
	}
	return unanswered(name, err)
}

// refusals has the codes of the errors by which a provider refuses a node.
var refusals = map[provider.Kind]am.Code{
	provider.Full: am.TooBig, provider.Unknown: am.SearchFailed, provider.Forbidden: am.Refused, provider.Unsupported: am.Unsupported,
}

func refused(e *provider.Error) *am.Error {
	return &am.Error{Code: cmp.Or(refusals[e.Kind], am.ErrorCode), Msg: cmp.Or(e.Msg, "its provider gives no reason"), Err: e}
}
