// Package sysctl raises kernel limits that all nodes of a host share, and restores
// them.
//
// Each setting has one value for every testbed of the host, computed of the host's
// memory alone: so it does not matter which testbed raises it first, or sets it
// back last. Nothing is ever lowered. What the settings bound is, for the most part,
// memory that is charged to the nodes, so the limits of their groups (package cgroup)
// are what protects the host. What waits in connections that nobody has accepted is
// charged to none: tcp_mem alone bounds it, so that is a quarter of the memory.
//
//	net.ipv?.neigh.default.gc_thresh?  which address is at which MAC address: one table
//	                                   for all networks, of 1,024 entries by default,
//	                                   which 33 nodes of a LAN fill that all talk
//	kernel.pid_max, kernel.threads-max processes and threads
//	fs.file-max                        open files
//	net.core.bpf_jit_limit             compiled filters: who finds it used up can
//	                                   install no filter of sockets or system calls,
//	                                   and so starts no node, gateway or relay
//	net.ipv4.tcp_mem, udp_mem          what waits in sockets
package sysctl
