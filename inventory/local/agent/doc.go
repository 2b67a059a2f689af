// Package agent is PID 1 of a node, and how the host speaks with it. Its
// listening socket was made on the host before the node's root was, so nothing
// inside the node can reach it. Each connection carries one operation. What the
// agent starts is born inside the node, under its limits and its seccomp
// filter: nobody ever enters a node from outside.
//
// The host takes the agent's answers as hostile: they are bounded, and the
// files that come with them are looked at before they are used.
package agent
