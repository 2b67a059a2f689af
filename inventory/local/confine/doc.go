// Package confine takes rights away from the running process: capabilities,
// system calls (seccomp allow-lists, a table per architecture), descriptors,
// resource limits.
package confine
