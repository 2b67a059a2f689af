// Package testbed is the program behind "patchbay-local up": it owns the nodes
// of one instance. What a provider call asks for is written down first and then
// made true, node by node, in the background; what is true is found again after
// any crash or boot.
package testbed
