// Package hostname makes the names of a slice's nodes: their host names, the names in /etc/hosts, and those
// in configurations of OpenSSH and inventories of Ansible.
//
// A name means exactly one node:
//
//   - Resolvers compare names without case. A client_id is a name if IsName accepts it and no other
//     client_id of the slice equals it without case.
//   - Each node has a host name. It is the first part of a requested DNS name, or else the client_id in
//     lower case, in which each run of other characters than letters and digits is a hyphen. If that name
//     is the client_id of another node, or if several nodes would have it, it gets a number.
//   - A node keeps its host name. A later node whose client_id is that host name has a number in its own.
//   - A name NODE-LINK, for each of these, is the address of the node on the link, unless it is also
//     another name.
//
// Name returns the name that programs should use: the client_id if it is a name, or else the host name.
package hostname
