// Package fabric makes the network of an experiment: a network namespace for each
// slice with the bridges of its links and the host's side of all interfaces, where
// root of a node cannot touch what shapes the traffic.
package fabric
