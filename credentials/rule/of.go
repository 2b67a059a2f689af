package rule

import "errors"

// Breaker is an error that names the broken rule.
type Breaker interface {
	error
	BrokenRule() Rule
}

// Of returns the rule that an error names, or Readable if it names none.
func Of(err error) Rule {
	if b, ok := errors.AsType[Breaker](err); ok && b.BrokenRule() != "" {
		return b.BrokenRule()
	}
	return Readable
}
