// Package outbound lets nodes reach the network outside: through a network
// namespace that translates their addresses, names the servers they ask for names,
// and lets nothing through to the host, its neighbours or other nodes.
package outbound
