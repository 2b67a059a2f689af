// Package e2e has the tests that run the built programs, as operators and users do.
// Tests of commands inside one process are in cmd/patchbay.
package e2e
