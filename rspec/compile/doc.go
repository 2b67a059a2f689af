// Package compile compiles RADL and blueprints to request RSpecs.
//
//	source ── Language ──> parse ──> withoutSecrets ──> toRequest ──> request RSpec
//	   └── mistakes and warnings, with their places in the source
//
// Language finds the language of a text from its content. Compile returns the request, the source
// without secrets, and the warnings, or an *Error with all mistakes. Sources come from strangers, so
// Options.Work counts the steps of a compilation, and ends it.
package compile
