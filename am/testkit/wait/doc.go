// Package wait waits in tests for a condition, with one limit for all. Tests
// do not choose limits for the speed of a machine. The limit for all is three minutes;
// PATCHBAY_WAIT multiplies it on a slow machine.
//
// Only tests import it.
package wait
