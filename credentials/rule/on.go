//go:build !attack

package rule

// Broken returns found, which reports whether the input breaks the rule.
func (r Rule) Broken(found bool) bool { return found }
