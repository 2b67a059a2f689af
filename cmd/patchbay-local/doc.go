// Command patchbay-local is the local testbed and the simulated provider, in one
// static binary without cgo.
package main
