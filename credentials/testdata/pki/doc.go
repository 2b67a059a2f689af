// Package pki makes certificates and credentials for tests: right ones, and
// ones that are wrong in exactly one respect. Keys come from ../keys and the
// clock stands at Now.
//
// Only tests import it.
package pki
