// Package supervisor starts child processes, logs their output, restarts them and
// detects those that hang. A local testbed runs its gateway and its switch processes
// with it, and a served site runs its local testbeds.
package supervisor
