// Package blueprint compiles blueprints of Heat's DSL2 proposal to request RSpecs: components with
// requirements, in YAML or JSON, and a library of their types.
package blueprint
