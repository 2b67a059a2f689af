// Package inside configures a node of a cluster, inside the node: host name, accounts, host keys
// and the addresses of links. The executable is in the template of which the node is a copy. The
// provider runs it in the node.
package inside
