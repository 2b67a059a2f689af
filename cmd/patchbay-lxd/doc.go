// Patchbay-lxd is the provider for LXD and Incus clusters, in one static binary without cgo.
package main
