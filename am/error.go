package am

import (
	"errors"
	"fmt"
	"time"

	"patchbay/am/urn"
)

// Error is an error with an API code and a message for the experimenter. Packages that do not know
// the API, such as credentials and rspec, have their own error types, and am/api has their codes.
type Error struct {
	Code   Code
	Detail Detail
	// URN is the slice, sliver or component concerned; zero if there is none.
	URN urn.URN
	// FirstStart and LongestEnd are set if a request has no room in the time that it asks for: the whole request
	// has room from FirstStart on, or until LongestEnd from its start on. Zero: unknown.
	FirstStart, LongestEnd time.Time
	// Msg is one readable line for the experimenter: what is wrong and what to do.
	Msg string
	// Err is the cause, for the operator's log only.
	Err error
}

func (e *Error) Error() string { return e.Msg }

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a code and a message for the experimenter.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}

// About sets the URN of the object concerned and returns e.
func (e *Error) About(u urn.URN) *Error { e.URN = u; return e }

// With sets the detailed reason and returns e.
func (e *Error) With(d Detail) *Error { e.Detail = d; return e }

// CodeOf returns the code of err: Success for nil, ErrorCode for an error without a
// code.
func CodeOf(err error) Code {
	if err == nil {
		return Success
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ErrorCode
}
