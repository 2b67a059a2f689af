package binder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am"
)

// UnsatisfiedError says why a request cannot be bound: nothing of it is.
type UnsatisfiedError struct {
	// Reasons has one for each node concerned, what lasts before what passes:
	// Reasons[0] has the code for the whole.
	Reasons []Reason
}

// Reason says why one node cannot be bound.
type Reason struct {
	ClientID string
	Line     int // of the node in the request
	Code     am.Code
	Detail   am.Detail
	// Text names the node, what is in the way and what would have fitted.
	Text string
}

// shown is how many reasons an error prints.
const shown = 5

func (e *UnsatisfiedError) Error() string {
	var b strings.Builder
	for i, r := range e.Reasons {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more nodes", len(e.Reasons)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(r.Text)
	}
	return b.String()
}

// lasting orders codes: a client that repeats the call should first mend what
// will not pass by itself.
var lasting = []am.Code{am.BadArgs, am.SearchFailed, am.Unsupported, am.Refused, am.TooBig, am.Busy}

func sortReasons(r []Reason) {
	slices.SortStableFunc(r, func(a, b Reason) int {
		return cmp.Compare(slices.Index(lasting, a.Code), slices.Index(lasting, b.Code))
	})
}
