// Package e2e has the tests that run the built programs, as operators and users do.
package e2e
