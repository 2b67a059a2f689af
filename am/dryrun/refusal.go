package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	if e, ok := errors.AsType[*provider.Error](err); ok && slices.Contains([]provider.Kind{provider.Unknown, provider.Forbidden, provider.Unsupported, provider.Full}, e.Kind) {
		return refused(e)
	}
	return unanswered(name, err)
}

func refused(e *provider.Error) *am.Error {
	code, detail := am.ErrorCode, am.Detail(0)
	switch e.Kind {
	case provider.Full:
		code, detail = am.TooBig, am.InsufficientNodes
	case provider.Unknown:
		code = am.SearchFailed
	case provider.Forbidden:
		code = am.Refused
	case provider.Unsupported:
		code = am.Unsupported
	}
	text := e.Msg
	if text == "" {
		text = "its provider gives no reason"
	}
	return &am.Error{Code: code, Detail: detail, Msg: text, Err: e}
}
