//go:build !attack

package rule

// Broken returns violated. With the build tag "attack", rules can be switched off.
func (r Rule) Broken(violated bool) bool { return violated }
