package client

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// Reply is an aggregate's answer: the triple of code, value and output.
type Reply struct {
	Code am.Code
	// Detail is the am_code, whose meaning depends on AMType; zero if there was none.
	Detail int
	AMType string
	// Output is the aggregate's message to the user, mostly about an error.
	Output string
	// Value is the unchanged result of Call; nil if there was none, and from typed calls.
	Value xmlrpc.Value
	// FirstStart and LongestEnd are what Patchbay says about a refusal for lack of room, see am.Error; else zero.
	FirstStart, LongestEnd time.Time
	// Took is the time from the call to its answer.
	Took time.Duration
}

// atLine is the beginning of a sentence about a place of a request.
var atLine = regexp.MustCompile(`(?m)(^|; )(?:from )?line \d+(?::\d+)?: `)

// ForSource returns the reply for a user who wrote another text than the request that was sent. The
// lines that begin the sentences of its output are left out, and terms, if not nil, replaces names.
func (r Reply) ForSource(terms *strings.Replacer) Reply {
	if r.Output = atLine.ReplaceAllString(r.Output, "$1"); terms != nil {
		r.Output = terms.Replace(r.Output)
	}
	return r
}

// Err returns nil for a success, and otherwise an *am.Error. The error has the code, and a
// message that begins with the code's name. It has the detail only if AMType is Patchbay's.
func (r Reply) Err() error {
	if r.Code == am.Success {
		return nil
	}
	text := r.Output
	if text == "" {
		text = "the aggregate gives no reason"
	}
	e := am.Errorf(r.Code, "%s (%d): %s", r.Code, int(r.Code), indented(text))
	e.FirstStart, e.LongestEnd = r.FirstStart, r.LongestEnd
	if r.AMType == am.AMType {
		e.Detail = am.Detail(r.Detail)
	}
	return e
}

// indented returns a text of the server in which all lines but the first are indented.
func indented(text string) string {
	return strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ").Replace(strings.TrimRight(text, "\r\n"))
}

func parseReply(v xmlrpc.Value) (Reply, error) {
	raw, ok := v.(xmlrpc.Struct)
	if !ok {
		return Reply{}, errors.New("the answer is not a struct of code, value and output")
	}
	var r Reply
	code, ok := raw.Get("code")
	if !ok {
		return Reply{}, errors.New("the answer has no code")
	}
	s, ok := code.(xmlrpc.Struct)
	if !ok {
		return Reply{}, errors.New("the answer's code is not a struct")
	}
	number, _ := s.Get("geni_code")
	n, ok := number.(int)
	if !ok {
		return Reply{}, errors.New("the answer's code has no integer geni_code")
	}
	r.Code = am.Code(n)
	if d, ok := s.Get("am_code"); ok {
		r.Detail, _ = xmlrpc.AsInt(d)
	}
	if t, ok := s.Get("am_type"); ok {
		r.AMType, _ = xmlrpc.AsString(t)
	}
	r.Value, _ = raw.Get("value")
	if v, ok := r.Value.(xmlrpc.Struct); ok && r.Code != am.Success {
		r.FirstStart, r.LongestEnd = timeIn(v, "patchbay_first_start"), timeIn(v, "patchbay_longest_end")
	}
	switch o, _ := raw.Get("output"); o := o.(type) {
	case nil:
	case string:
		r.Output = o
	case time.Time: // some aggregates answer Renew of version 2 with a dateTime
		r.Output = o.Format(time.RFC3339)
	default:
		r.Output = fmt.Sprint(o)
	}
	return r, nil
}
