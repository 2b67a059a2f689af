// Package wait waits for conditions in tests. All tests have the same time limit, three
// minutes, so no test has to choose one for the speed of a machine. On a slow machine
// PATCHBAY_WAIT is a factor by which the limit is multiplied.
//
// Only tests import it.
package wait
