// Package gateway is the SSH server in front of all nodes: a port per node, a
// gateway account that only forwards (ProxyJump), and port 22 inside each node.
// It runs in a process of its own, under its own user id, without capabilities,
// under seccomp: everything it uses is handed to it by the Keeper, which starts
// it again when it dies.
package gateway
