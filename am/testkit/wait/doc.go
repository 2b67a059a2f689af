// Package wait waits in tests for a condition, with one limit for all. A test has
// no limit of its own on how quick a machine must be: there is one generous limit
// for all, three minutes, which PATCHBAY_WAIT multiplies on a slow machine.
//
// Only tests import it.
package wait
