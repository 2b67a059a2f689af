package rspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is why a request was refused.
type Kind int

// Kinds of refusal.
const (
	// BadArgs: the request is wrong in itself.
	BadArgs Kind = iota + 1
	// BadVersion: an RSpec, but of a version that is not read here.
	BadVersion
	// Unsupported: right, but more than this aggregate can do.
	Unsupported
	// TooBig: beyond a limit of size.
	TooBig
)

// weight orders kinds: the heaviest gives the answer its code. What can never
// be read comes before what is wrong, and that before what cannot be done here.
func (k Kind) weight() int {
	return slices.Index([]Kind{0, Unsupported, BadArgs, TooBig, BadVersion}, k)
}

// Problem is one thing that is wrong with a request, or, without a kind, only
// worth a remark.
type Problem struct {
	// Kind is 0 for a remark.
	Kind Kind
	// ClientID is the node, link or interface concerned; empty if none is.
	ClientID string
	// Line and Column are where it stands in the bytes as they were given: lines
	// and characters counted from 1, a byte order mark not counted; 0 if unknown.
	Line, Column int
	// Msg says what is wrong, Remedy what to do or what would have been
	// accepted; each is a part of one line.
	Msg, Remedy string
}

// IsRemark tells whether the request is taken all the same.
func (p Problem) IsRemark() bool { return p.Kind == 0 }

// String is one line: where, what is wrong, and what to do.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text()
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text())
}

// Text is String without the line, for those who print the place themselves.
func (p Problem) Text() string {
	if p.Remedy == "" {
		return p.Msg
	}
	return p.Msg + "; " + p.Remedy
}

// Lines are the problems as text, each one line.
func Lines(list []Problem) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

// merged are two lists, each by line and column, as one.
func merged(a, b []Problem) []Problem {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return all
}

// RequestError is the refusal of a request.
type RequestError struct {
	// Problem is the one that decides the answer's code; the first of its kind.
	Problem
	// Problems are all that were found, at least one and at most 50, by line.
	Problems []Problem
	// More counts what was found beyond them.
	More int
}

// maxTold is how many problems one message tells.
const maxTold = 10

// Error tells the problems, the first ten if there are more, on one line.
func (e *RequestError) Error() string {
	told := Lines(e.Problems[:min(len(e.Problems), maxTold)])
	if more := len(e.Problems) - len(told) + e.More; more > 0 {
		told = append(told, fmt.Sprintf("and %d more; patchbay check lists them", more))
	}
	return strings.Join(told, "; ")
}

// refusal makes an error of the problems, which are in order; nil without any.
func refusal(list []Problem, more int) *RequestError {
	if len(list) == 0 {
		return nil
	}
	worst := slices.MaxFunc(list, func(a, b Problem) int { return cmp.Compare(a.Kind.weight(), b.Kind.weight()) })
	return &RequestError{Problem: worst, Problems: list, More: more}
}
