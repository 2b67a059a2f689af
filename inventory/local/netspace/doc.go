// Package netspace makes network namespaces, keeps them by a bind mount, and runs
// functions in them. Links (package fabric) and the way outside (package egress)
// use it.
package netspace
