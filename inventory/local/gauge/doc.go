// Package gauge measures links between nodes: how much goes through, how long it
// takes, and how much is lost. The testbed's program is in every node, so nothing
// has to be installed.
package gauge
