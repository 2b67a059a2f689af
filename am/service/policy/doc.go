// Package policy decides which resources users may reserve, how many, and for how long.
// An operator writes a list of rules (policy.yaml). The first rule whose users and
// projects match decides; later rules are ignored.
//
//	policy.yaml ── Load ──> Rules ──> Policy ── For(user, slice) ──> Permit ── Within ──> refusal or nil
//	store ── View.Calendar ──> Calendar ── Held(user, slice) ──> Held ──────────┘
//
// A Permit applies one rule to one user in one slice. Its limits are for the most that is held at
// any instant of a reservation. It is used inside the decision that makes a reservation, so that of two
// concurrent calls the second sees the reservation of the first.
//
// The user of a call is the user who holds the right, never the tool that speaks for them.
// The project is the authority of the slice. Slivers count for the user who reserved them,
// for their slice and for its project, from reservation to release.
//
// Three keys limit leases. first is the longest lease that Provision gives. renew is the
// longest time from a renewal to the new end of the lease. longest is the longest time from a
// sliver's start to the end of any lease. The limits of the site apply, too. A rule never
// refuses a shorter lease.
//
// A refusal has the text of the rule and the code REFUSED (7). The package reads files, and
// nothing else: no provider, no clock, no network.
//
// # Decisions
//
//   - user of a rule: the user, also if a tool speaks for them. The project is the authority of
//     the slice: [Policy.For].
//   - held resources: slivers count from the reservation to the release, and each decision
//     reads them from the store's calendar: [Calendar.Held].
//   - later ends: a lease or a reservation ends before the instant at which it would exceed a limit beside one that begins
//     later. Limits that were lowered since end nothing: [Permit.Until].
//   - key ahead: it limits what one user holds, in all slices, that has not begun: [Permit.WithinAhead].
//   - leases: a rule limits them in addition to the site's limits, and never refuses a shorter
//     lease: [Permit.Latest].
package policy
