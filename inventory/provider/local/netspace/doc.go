// Package netspace creates network namespaces, keeps them alive with bind mounts, and runs
// functions in them. Links (package fabric) and the access to outside networks (package
// egress) use it.
package netspace
