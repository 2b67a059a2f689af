// Package clock provides the time that leases follow: the host's clock, unless
// that jumps. A jump is not believed until an operator says so, for time that was
// promised must not go by in a moment, nor last for years.
//
// The host has two clocks. The wall clock tells what time it is, and can be set.
// The steady one (CLOCK_BOOTTIME) counts from the boot on, also while the host is
// suspended, and cannot. As long as both go along with each other, up to a limit,
// the site's time is the wall clock's; small corrections are followed. When they
// part, the site's time goes on by the steady clock from what it was, in doubt:
//
//	     ┌──── within the limit, or Believe ────┐
//	     v                                      │
//	no doubt ─── the host's clock jumps ───> Jumped
//	     ^
//	     └── ahead, and synchronized or two minutes after the boot ── Booted
//
// What is known is kept over a restart in a small File. Within one boot the steady
// clock tells how much time has gone by meanwhile, whatever happened to the wall
// clock. Over a boot nothing tells that. So the last known time goes on (Booted) until
// the host's clock is not before it, and a time service has set it or the boot was two
// minutes ago: clocks of machines are often hours wrong until then, and years with a
// dead battery. A clock that had jumped ahead before the boot and still is there
// stays Jumped.
//
// A jump in the first 15 minutes of a boot is believed when the kernel says that the
// clock is synchronized, for that is what time services do then. Later only an
// operator can say which of the two is right.
//
// The package never waits for a lease, and times nothing but leases and what is
// compared with them: timeouts and logs are the runtime's.
//
// # Decisions
//
//   - jumps of the host's clock: the clock follows one only if an operator confirms it or the
//     host's clock returns. Otherwise leases would end at once or never: [Clock.Believe].
//   - corrections: the clock follows them up to clock_jump, and any in the first 15 minutes after
//     a boot once the kernel reports a synchronized clock: [DefaultJump].
//   - restarts: within one boot the monotonic clock continues the time. After a boot the last
//     saved time continues until the host's clock is later: [Clock.Save].
//   - leases after a boot: none ends before a time service has set the clock, or two minutes have
//     passed: [Clock.State].
package clock
