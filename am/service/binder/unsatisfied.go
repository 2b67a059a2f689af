package binder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
)

// UnsatisfiedError is the reason why a request cannot be bound, not even in part. It wraps an
// *am.Error with its code.
type UnsatisfiedError struct {
	// Reasons has a reason for each refused node or link, permanent reasons before temporary
	// ones. The code of Reasons[0] is the code of the whole request.
	Reasons []Reason
	// FirstStart and LongestEnd are those of am.Error, and Windows is a text about them.
	FirstStart, LongestEnd time.Time
	Windows                string
}

// Reason is the reason why a node cannot be bound, or why a link cannot be created.
type Reason struct {
	Kind     string // "node" or "link"
	ClientID string
	Line     int // of the node or link in the request
	Code     am.Code
	// What is the attribute or element of the node or link that causes the reason, such as
	// component_id, or the text of a constraint; empty if the reason is about the whole node or
	// link.
	What string
	// Text describes the obstacle and a remedy, without the name of the node or link.
	Text string
}

// bandwidth is the What of a reason for a link whose capacity is not available: the element that
// asks for the capacity.
const bandwidth = "property"

// detail returns the detailed reason for the code.
func (r *Reason) detail() am.Detail {
	switch {
	case r.Kind == "node" && r.Code == am.TooBig:
		return am.InsufficientNodes
	case r.Kind == "link" && r.Code == am.NoVLAN:
		return am.VLANUnavailable
	case r.Kind == "link" && r.What == bandwidth:
		return am.InsufficientBandwidth
	}
	return am.NoDetail
}

// maxReasons limits the different reasons that an error prints. maxNames limits the names of
// nodes or links for each reason.
const (
	maxReasons = 5
	maxNames   = 10
)

// Error returns a sentence for each reason, with the names of all nodes or links that
// share it and the line of the first.
func (e *UnsatisfiedError) Error() string {
	type reason struct {
		kind string
		code am.Code
		text string
	}
	var order []reason
	names, lines, left := map[reason][]string{}, map[reason][]int{}, map[string]int{}
	for _, r := range e.Reasons {
		k := reason{r.Kind, r.Code, r.Text}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], r.ClientID)
		lines[k] = append(lines[k], r.Line)
		left[r.Kind]++
	}
	var b strings.Builder
	for i, k := range order {
		if i == maxReasons {
			var more []string
			for _, kind := range []string{"node", "link"} {
				if left[kind] > 0 {
					more = append(more, display.Count(left[kind], "more "+kind))
				}
			}
			b.WriteString("; and " + strings.Join(more, " and "))
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(places(lines[k]) + Together(k.kind, names[k]) + ": " + k.text)
		left[k.kind] -= len(names[k])
	}
	if e.Windows != "" {
		b.WriteString("; " + e.Windows)
	}
	return b.String()
}

// Unwrap returns an *am.Error.
func (e *UnsatisfiedError) Unwrap() error {
	return &am.Error{Code: e.Reasons[0].Code, Detail: e.Reasons[0].detail(), Msg: e.Error(), FirstStart: e.FirstStart, LongestEnd: e.LongestEnd}
}

func places(lines []int) string {
	switch first := slices.Min(lines); {
	case first == 0:
		return ""
	case len(lines) > 1:
		return fmt.Sprintf("from line %d: ", first)
	default:
		return fmt.Sprintf("line %d: ", first)
	}
}

// Together lists nodes or links in a sentence: node "a", or nodes "a", "b" and "c".
func Together(kind string, clientIDs []string) string {
	var quoted []string
	for _, id := range clientIDs[:min(len(clientIDs), maxNames)] {
		quoted = append(quoted, fmt.Sprintf("%.80q", id))
	}
	last := len(quoted) - 1
	switch more := len(clientIDs) - len(quoted); {
	case more > 0:
		return fmt.Sprintf("%ss %s and %d more", kind, strings.Join(quoted, ", "), more)
	case last == 0:
		return kind + " " + quoted[0]
	}
	return kind + "s " + strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

// Unsatisfied returns an error for reasons; there must be at least one.
func Unsatisfied(reasons []Reason) *UnsatisfiedError {
	sortReasons(reasons)
	return &UnsatisfiedError{Reasons: reasons}
}

// codeOrder is the order of reasons by their codes. Mistakes that waiting does not solve come
// first, so that a client fixes them before it repeats the call.
var codeOrder = []am.Code{
	am.BadArgs, am.SearchFailed, am.Unsupported, am.Refused, am.TooBig, am.NoVLAN, am.ErrorCode, am.ServerError, am.TimedOut, am.Unavailable, am.Busy,
}

func sortReasons(r []Reason) {
	slices.SortStableFunc(r, func(a, b Reason) int {
		return cmp.Compare(slices.Index(codeOrder, a.Code), slices.Index(codeOrder, b.Code))
	})
}
