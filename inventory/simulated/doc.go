// Package simulated is a provider of nodes that do not exist but behave as if they
// did, or fail as they are told to. Its nodes take believable times, report
// endpoints, addresses and host keys, and can be told to be slow, to refuse, to
// fail, to hang, to die or to vanish.
//
// It is for trying out a site, for testing clients, and for testing the
// manager itself. It opens no socket, starts no process and never sleeps,
// unless told to hang: an operation is accepted with the time it will be done,
// and get compares that time with the clock.
//
//	providers/NAME.prov        two lines of shell (Script)
//	providers/NAME.yaml        metadata and settings, commented (Settings)
//	providers/NAME.state/log   what was accepted, one JSON object a line
//	providers/NAME.state/lock  held while the log is read or written
//
// Lines are appended to the log. When most of them are outdated, a shorter log
// replaces it. A last line that a killed process left unfinished is ignored.
// Addresses and host names are taken from the ranges reserved for documentation
// and benchmarks, so they never belong to a real machine.
//
// Contract: PROVIDER.md in package provider.
package simulated
