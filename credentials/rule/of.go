package rule

import "errors"

// Breaker is an error that says which rule was broken.
type Breaker interface {
	error
	BrokenRule() Rule
}

// Of is the rule that an error says was broken, Readable where it says none.
func Of(err error) Rule {
	if b, ok := errors.AsType[Breaker](err); ok && b.BrokenRule() != "" {
		return b.BrokenRule()
	}
	return Readable
}
