// Package simulated is a provider of nodes that do not exist but behave like real ones.
// Operations take realistic times, and nodes report endpoints, addresses and host keys.
// The settings can make a component slow. They can also make an operation fail, hang, be
// refused, kill the provider or lose the node.
//
// The provider is for trying out a site, for testing clients, and for testing the manager
// itself. It opens no socket, starts no process, and sleeps only if the settings make it
// hang. It stores each accepted operation with the time at which the operation ends, and
// get compares that time with the clock.
//
//	providers/NAME.prov        two lines of shell (Script)
//	providers/NAME.yaml        metadata and settings, commented (Settings)
//	providers/NAME.state/log   the accepted operations, one JSON object a line
//	providers/NAME.state/lock  held while the log is read or written
//
// Operations are appended to the log. When most lines of the log are outdated, a new log
// replaces it by a rename. An incomplete last line, which a killed process left, is
// ignored. Addresses are from ranges that are reserved for documentation and benchmarks,
// so they never belong to a real host.
//
// PROVIDER.md in package provider is the contract that this provider implements.
package simulated
