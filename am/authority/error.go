package authority

import "fmt"

// Code is a code of the Federation API.
type Code int

// Codes of the Federation API, version 2.
const (
	None           Code = 0
	Authentication Code = 1
	Authorization  Code = 2
	Argument       Code = 3
	Database       Code = 4
	Duplicate      Code = 5
	NotImplemented Code = 100
	Server         Code = 101
)

var codeNames = map[Code]string{
	None: "NONE", Authentication: "AUTHENTICATION_ERROR", Authorization: "AUTHORIZATION_ERROR", Argument: "ARGUMENT_ERROR",
	Database: "DATABASE_ERROR", Duplicate: "DUPLICATE_ERROR", NotImplemented: "NOT_IMPLEMENTED_ERROR", Server: "SERVER_ERROR",
}

func (c Code) String() string { return codeNames[c] }

// Error is a refusal. Text is one line for the user.
type Error struct {
	Code Code
	Text string
	// missing means that the object does not exist. The ProtoGENI slice authority has a code for
	// it.
	missing bool
}

func (e *Error) Error() string { return e.Text }

// output returns the text for the field output. omni recognizes some errors by this form.
func (e *Error) output() string { return fmt.Sprintf("%s (%s)", e.Code, e.Text) }

func refuse(code Code, format string, a ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, a...)}
}

// unknown is the refusal of a call about an object that does not exist. omni recognizes the words.
func unknown(kind string, name any) *Error {
	return &Error{Code: Argument, Text: fmt.Sprintf("Unknown %s: %v", kind, name), missing: true}
}
