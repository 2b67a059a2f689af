// Package node makes a node: its disk, its name spaces, its root file system,
// its limits, with the agent as PID 1. It finds nodes again after the program
// that made them died, and removes them wholly.
package node
