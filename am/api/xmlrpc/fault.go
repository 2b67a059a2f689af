package xmlrpc

import "fmt"

// Fault codes, from the "Specification for Fault Code Interoperability".
const (
	// FaultParse: the document is not well-formed, or uses a part of XML that the decoder
	// refuses.
	FaultParse = -32700
	// FaultEncoding: the document declares a character set other than UTF-8, US-ASCII
	// or ISO-8859-1.
	FaultEncoding = -32701
	// FaultCharacter: a byte is not part of a character of the declared encoding.
	FaultCharacter = -32702
	// FaultInvalid: the document is well-formed, but is not XML-RPC or exceeds a limit.
	FaultInvalid = -32600
	// FaultMethod: the method does not exist.
	FaultMethod = -32601
	// FaultParams: the number of parameters is wrong.
	FaultParams = -32602
	// FaultInternal: the server has an internal error.
	FaultInternal = -32603
	// FaultSystem: the server cannot answer calls now.
	FaultSystem = -32400
)

// Fault is the answer to a call that failed at the level of XML-RPC. No method was
// executed.
type Fault struct {
	Code int
	// Text is one line that describes the error and its place in the document.
	Text string
}

// Error quotes the text, which is the server's, so that it cannot look like lines of the program.
func (f *Fault) Error() string { return fmt.Sprintf("fault %d: %q", f.Code, f.Text) }

// SyntaxError is the error for a document that cannot be read.
type SyntaxError struct {
	// Code is one of the fault codes.
	Code int
	// Line counts from 1.
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }
