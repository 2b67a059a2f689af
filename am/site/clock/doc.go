// Package clock provides the time that leases follow: the host's clock, unless that jumps.
//
// A host has two clocks. The wall clock shows the time of day and can be set. The monotonic
// clock (CLOCK_BOOTTIME) counts from the boot, even while the host is suspended, and cannot be
// set. While both agree within a limit, the site's time is the wall clock's, including small
// corrections. After a jump the site's time follows the monotonic clock, until both clocks
// agree again or an operator trusts the host's clock.
//
// Only leases, and times that are compared with leases, use this clock; timeouts and logs use
// the runtime's clock.
//
// # Decisions
//
//   - jumps of the host's clock: no lease ends early or late because of one: [Clock.Now],
//     [Clock.Trust].
//   - jumps by a time service in the first 15 minutes after a boot are trusted, since time
//     services set the clock then: [State].
//   - restarts: nothing is stored. A server that starts trusts the host's clock: [New].
package clock
