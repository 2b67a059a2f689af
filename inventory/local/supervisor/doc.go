// Package supervisor starts child processes, logs what they write, ends them, starts
// them again, and notices those that hang. The gateway, the relays of links, and a served
// site, which starts local testbeds, run their child processes with it.
package supervisor
