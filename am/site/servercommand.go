package site

import (
	"net/http"
	"strings"
	"unicode"

	"patchbay/am/operate"
)

// Bounds of an order.
const (
	maxSiteOrder = 1 << 10 // bytes
	maxOperator  = 100     // bytes
)

// ServerCommand is what a command says to a served site that is to do something of which
// the audit tells: the site writes that line, for who gave the order may be gone
// before it is done.
type ServerCommand struct {
	Operator string `json:"operator"`
}

// readOrder reads an order. One that would make an odd audit is refused, in an answer;
// then ok is false.
func readOrder(w http.ResponseWriter, r *http.Request) (o ServerCommand, ok bool) {
	err := operate.ReadOrder(w, r, maxSiteOrder, &o)
	switch {
	case err != nil:
	case o.Operator == "":
		err = &operate.RefusedError{Text: "the order does not say who gives it"}
	case len(o.Operator) > maxOperator || strings.ContainsFunc(o.Operator, unicode.IsControl):
		err = &operate.RefusedError{Text: "the name of the operator is longer than 100 bytes, or has control characters"}
	}
	if err != nil {
		operate.Fail(w, err)
	}
	return o, err == nil
}
