// Package netlab creates a host and an Internet in network namespaces, for tests.
// Programs in the lab can change the host's network and reach servers by name. They
// cannot reach or change the network of the real host:
//
//	"host"      eth0 203.0.113.10/24, 127.0.0.1; programs run here (Start, Do)
//	"internet"  203.0.113.1, and every other address that a test adds; a name
//	            server that knows all names (Names), web servers for all names
//
// Files, processes and Unix sockets are those of the real host. A lab needs root, and is
// removed when its test ends.
//
// Only tests import it.
package netlab
