// Package netspace makes network namespaces, keeps them by a bind mount, and runs
// functions in them. Links (package fabric) and the access to outside networks (package
// egress) use it.
package netspace
