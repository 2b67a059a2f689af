// Package inside configures a node of a cluster, inside the node: host name, accounts, host keys
// and the addresses of links. The provider pushes this executable into the node and runs it there.
package inside
