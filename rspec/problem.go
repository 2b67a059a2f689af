package rspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is the reason for a refusal.
type Kind int

// Kinds of refusal.
const (
	// BadArgs: the request itself is wrong.
	BadArgs Kind = iota + 1
	// BadVersion: it is an RSpec of a version that is not supported.
	BadVersion
	// Unsupported: the request is correct, but this aggregate cannot do it.
	Unsupported
	// TooBig: the request exceeds a limit of size.
	TooBig
)

// weight returns a rank: the problem with the highest rank determines the answer's code. The
// order is remark, Unsupported, BadArgs, TooBig, BadVersion.
func (k Kind) weight() int {
	return slices.Index([]Kind{0, Unsupported, BadArgs, TooBig, BadVersion}, k)
}

// Problem is one mistake in a request, or, without a kind, a remark.
type Problem struct {
	// Kind is 0 for a remark.
	Kind Kind
	// ClientID is the node, link or interface concerned; empty if there is none.
	ClientID string
	// Line and Column are the place in the bytes as received: lines and characters
	// counted from 1, without a byte order mark; 0 if unknown.
	Line, Column int
	// Msg says what is wrong, Remedy what to do or what would be accepted. Neither
	// contains a line break.
	Msg, Remedy string
}

// IsRemark reports whether the request is accepted in spite of the problem.
func (p Problem) IsRemark() bool { return p.Kind == 0 }

// String returns one line: the place, what is wrong, and what to do.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text()
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text())
}

// Text returns String without the line number.
func (p Problem) Text() string {
	if p.Remedy == "" {
		return p.Msg
	}
	return p.Msg + "; " + p.Remedy
}

// Lines returns the problems as text, one line each.
func Lines(list []Problem) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

func mergeByLine(a, b []Problem) []Problem { return ByLine(slices.Concat(a, b)) }

// ByLine sorts problems by their places, and returns them.
func ByLine(all []Problem) []Problem {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return all
}

// RequestError is the refusal of a request.
type RequestError struct {
	// Problem is the gravest problem; its Kind determines the answer's code.
	Problem
	// Problems are at least one and at most 50, by line.
	Problems []Problem
	// More counts further problems.
	More int
}

// NewRequestError returns the refusal for the mistakes among the problems; nil if all are remarks.
func NewRequestError(all []Problem) *RequestError {
	mistakes := slices.DeleteFunc(ByLine(slices.Clone(all)), Problem.IsRemark)
	kept := min(len(mistakes), maxProblems)
	return newRequestError(mistakes[:kept], len(mistakes)-kept)
}

const maxShown = 10

// Error lists the first ten problems, one on a line.
func (e *RequestError) Error() string {
	shown := Lines(e.Problems[:min(len(e.Problems), maxShown)])
	if more := len(e.Problems) - len(shown) + e.More; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more; patchbay check lists them", more))
	}
	return strings.Join(shown, "\n")
}

// newRequestError requires sorted problems, and returns nil if there are none.
func newRequestError(list []Problem, further int) *RequestError {
	if len(list) == 0 {
		return nil
	}
	worst := slices.MaxFunc(list, func(a, b Problem) int { return cmp.Compare(a.Kind.weight(), b.Kind.weight()) })
	return &RequestError{Problem: worst, Problems: list, More: further}
}
