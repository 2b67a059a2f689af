//go:build !attack

package rule

// Broken returns violated, which reports whether the input breaks the rule.
func (r Rule) Broken(violated bool) bool { return violated }
