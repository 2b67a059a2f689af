// Package supervisor starts child processes, logs their output, restarts them and detects
// those that hang. The gateway, the switch processes of links, and a served site run their
// child processes with it: the switch processes, the nodes' gateway, and local testbeds.
package supervisor
