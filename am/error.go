package am

import (
	"errors"
	"fmt"

	"patchbay/am/urn"
)

// Error is a refusal as the experimenter will read it. Rooms below the service
// have their own error types; this one is for outcomes that already have a
// code of the API.
type Error struct {
	Code   Code
	Detail Detail
	// URN is the slice, sliver or component concerned, if one is.
	URN urn.URN
	// Msg is one readable line for the experimenter: what is wrong and what to do.
	Msg string
	// Err is the cause, for the operator's log only.
	Err error
}

func (e *Error) Error() string { return e.Msg }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error with a code and a message for the experimenter.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}

// About adds the name concerned.
func (e *Error) About(u urn.URN) *Error { e.URN = u; return e }

// With adds the finer reason.
func (e *Error) With(d Detail) *Error { e.Detail = d; return e }

// CodeOf is the code carried by err, or Success for nil and ErrorCode for an
// error that carries none.
func CodeOf(err error) Code {
	if err == nil {
		return Success
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ErrorCode
}
