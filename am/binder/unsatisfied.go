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
	// Text says what is in the way and what would have fitted, without the node.
	Text string
}

// shown is how many different reasons an error prints, named how many nodes
// that share one.
const (
	shown = 5
	named = 10
)

// Error is a sentence for each reason, which names all nodes that share it.
func (e *UnsatisfiedError) Error() string {
	type reason struct {
		code am.Code
		text string
	}
	var order []reason
	nodes := map[reason][]string{}
	for _, r := range e.Reasons {
		k := reason{r.Code, r.Text}
		if nodes[k] == nil {
			order = append(order, k)
		}
		nodes[k] = append(nodes[k], r.ClientID)
	}
	var b strings.Builder
	left := len(e.Reasons)
	for i, k := range order {
		if i == shown {
			fmt.Fprintf(&b, "; and %s", plural(left, "more node"))
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(together(nodes[k]) + ": " + k.text)
		left -= len(nodes[k])
	}
	return b.String()
}

// together names the nodes of one reason: node "a", or nodes "a", "b" and "c".
func together(clientIDs []string) string {
	var quoted []string
	for _, id := range clientIDs[:min(len(clientIDs), named)] {
		quoted = append(quoted, fmt.Sprintf("%.80q", id))
	}
	last := len(quoted) - 1
	switch more := len(clientIDs) - len(quoted); {
	case more > 0:
		return fmt.Sprintf("nodes %s and %d more", strings.Join(quoted, ", "), more)
	case last == 0:
		return "node " + quoted[0]
	}
	return "nodes " + strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

// lasting orders codes: a client that repeats the call should first mend what
// will not pass by itself.
var lasting = []am.Code{am.BadArgs, am.SearchFailed, am.Unsupported, am.Refused, am.TooBig, am.Busy}

func sortReasons(r []Reason) {
	slices.SortStableFunc(r, func(a, b Reason) int {
		return cmp.Compare(slices.Index(lasting, a.Code), slices.Index(lasting, b.Code))
	})
}
