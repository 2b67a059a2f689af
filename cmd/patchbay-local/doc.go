// Patchbay-local is what runs beside a Patchbay server on its host: the
// simulated provider, in one static binary without cgo.
package main
