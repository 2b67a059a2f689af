// Package supervisor starts child processes, logs their output, restarts them and
// detects those that hang. The gateway, the switch processes of links, and a served
// site, which starts local testbeds, run their child processes with it.
package supervisor
