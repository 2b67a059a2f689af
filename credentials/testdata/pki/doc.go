// Package pki creates certificates and credentials for tests: valid ones, and
// ones that are invalid in exactly one respect. Keys come from ../keys. All dates are
// relative to the fixed time Now.
//
// Only tests import it.
package pki
