// Package doctor tests whether this host has everything that nodes need, and reports
// how to enable what is missing. It tries each thing once and never relies on a version: kernels are
// patched, and a container around this program may forbid what the kernel supports.
//
// Each test removes what it creates. Mounts, devices and namespaces belong to
// children (Argv0, ChildMain) and end with them, also when this program is killed.
// Folders and groups have the name of the process that created them, and the next
// examination removes those whose creator has ended. Several may run at once.
package doctor
