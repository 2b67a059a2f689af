package probe

import (
	"context"
	"errors"
	"fmt"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// unanswered is a call that failed as a whole. The words of a provider are for
// experimenters; what the host says of it is not.
func unanswered(name string, err error) *am.Error {
	text := fmt.Sprintf("its provider %s did not answer", name)
	e, ok := errors.AsType[*provider.Error](err)
	if ok && e.Msg != "" {
		text = e.Msg
	}
	code := am.ServerError
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = am.TimedOut
	}
	return &am.Error{Code: code, Msg: text + "; try again later", Err: err}
}

// refused is what a provider says of one resource.
func refused(e *provider.Error) *am.Error {
	code := am.ErrorCode
	switch e.Kind {
	case provider.Unknown:
		code = am.SearchFailed
	case provider.Forbidden:
		code = am.Refused
	}
	text := e.Msg
	if text == "" {
		text = "its provider gives no reason"
	}
	return &am.Error{Code: code, Msg: text, Err: e}
}
