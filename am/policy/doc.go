// Package policy decides which resources users may reserve, how many, and for how long.
// An operator writes a list of rules (policy.yaml). The first rule whose users and
// projects match decides; later rules are ignored.
//
//	policy.yaml ── Load ──> Rules ──┐
//	                                Policy ── For(user, slice) ──> Permit
//	store ── Stage, Publish … ──> Usage ┘
//
// A Permit applies one rule to one user in one slice, with the amounts held at that
// moment. It is used inside the decision that makes a reservation, so that of two
// concurrent calls the second sees the reservation of the first.
//
// The user is the one who holds the right, never the tool that speaks for them; the
// project is the authority of the slice. Slivers count for the user who reserved them,
// for their slice and for its project, from reservation to release.
//
// The key first is the longest lease that Provision gives. A renewal reaches at most
// renew from the moment of the call, and no lease of a sliver ends later than longest
// after its creation. The limits of the site apply, too. A rule never refuses a shorter
// lease.
//
// A refusal has the text of the rule and code 7. The package reads files, and nothing
// else: no provider, no clock, no network.
//
// # Decisions
//
//   - user of a rule: the user, also if a tool speaks for them. The project is the authority of
//     the slice: [Policy.For].
//   - held resources: slivers count from the reservation to the release, in an index that every
//     decision reads: [Usage].
//   - leases: a rule limits them in addition to the site's limits, and never refuses a shorter
//     lease: [Permit.Latest].
package policy
