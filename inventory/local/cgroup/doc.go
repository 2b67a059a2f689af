// Package cgroup keeps the limits of nodes, on hosts with cgroup v1, hybrid or
// v2: each node has a group below patchbay-local/INSTANCE, and in it one for
// PID 1 (init) and one for all else (jobs), so that a node full of processes
// still takes logins.
package cgroup
