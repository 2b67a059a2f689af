// Package clock provides the time that leases follow: the host's clock, unless
// that jumps. A jump is not trusted until an operator confirms it, since it could end all
// leases at once, or make them last for years.
//
// A host has two clocks. The wall clock shows the time of day and can be set. The
// steady clock (CLOCK_BOOTTIME) counts from the boot, even while the host is suspended,
// and cannot be set. While both agree within a limit, the site's time is the wall
// clock's, including small corrections. When they disagree, the site's time continues by
// the steady clock, and the host's clock is in doubt:
//
//	     ┌──── within the limit, or Trust ──────┐
//	     v                                      │
//	no doubt ─── the host's clock jumps ───> Jumped
//	     ^
//	     └── ahead, and synchronized or two minutes after the boot ── Booted
//
// A small file keeps the state over a restart. Within one boot the steady clock shows the
// time that has passed, independently of the wall clock. After a reboot that time is
// unknown. So the last known time continues (Booted) until two conditions hold: the
// host's clock is not before it; and a time service has set the clock, or the boot was two
// minutes ago. Until then clocks are often wrong by hours, or by years with a dead
// battery. A clock that had jumped ahead before the boot and still is ahead stays Jumped.
//
// A jump in the first 15 minutes after a boot is trusted if the kernel reports a
// synchronized clock, because time services set the clock then. Later only an operator
// can decide which clock is right.
//
// The package does not wait for leases. Only leases, and times that are compared with
// leases, use this clock; timeouts and logs use the runtime's clock.
//
// # Decisions
//
//   - jumps of the host's clock: the site's time follows one only if an operator confirms it.
//     Otherwise leases would end at once or never: [Clock.Trust].
//   - corrections: the clock follows them up to clock_jump, and any in the first 15 minutes after
//     a boot once the kernel reports a synchronized clock: [DefaultJump].
//   - restarts: within one boot the steady clock continues the time. After a boot the last
//     saved time continues until the host's clock is trusted: [Clock.Save].
//   - leases after a boot: the host's clock is trusted if it is later than the last saved time, and
//     a time service has set it or two minutes have passed: [Clock.State].
package clock
