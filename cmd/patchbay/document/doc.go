// Package document has the commands that read documents or judge aggregates: compile, draw and
// probe.
package document
