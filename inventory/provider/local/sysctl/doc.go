// Package sysctl raises kernel limits that all nodes of a host share, and restores
// the old values.
//
// Each setting has the same value for every testbed of the host, computed from the
// host's memory alone. So it does not matter which testbed raises it first, or
// restores it last. No setting is ever lowered. Most of these settings limit memory
// that is also charged to the nodes, so the memory limits of nodes (package cgroup)
// protect the host. Data in unaccepted connections is charged to no node: only
// tcp_mem limits it, so tcp_mem is a quarter of the memory.
//
//	net.ipv?.neigh.default.gc_thresh?  the MAC addresses of neighbours: one table
//	                                   for all networks, of 1,024 entries by default,
//	                                   which 33 nodes of a LAN fill if all exchange
//	                                   packets
//	kernel.pid_max, kernel.threads-max processes and threads
//	fs.file-max                        open files
//	net.core.bpf_jit_limit             compiled filters: when the limit is reached,
//	                                   no filter of sockets or system calls can be
//	                                   installed, so no node, gateway or vswitch starts
//	net.ipv4.tcp_mem, udp_mem          data in sockets
package sysctl
