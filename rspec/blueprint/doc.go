// Package blueprint compiles blueprints of Heat's DSL2 proposal to request RSpecs: components with
// requirements, in YAML or JSON, and a library of their types.
//
//	text ── Parse ──> Document ── Compile, Library ──> generate.Request
//
// A type of component has a form: node, group of nodes, software on nodes, or network. A type of
// requirement has an effect: a constraint on nodes, software on them, a relation to other nodes,
// or a policy for all of them. The folder library has the standard types; operators add their own.
package blueprint
