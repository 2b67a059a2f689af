// Package policy decides who may reserve what, how much of it and for how long. An
// operator writes it as a list of rules (policy.yaml); the first whose users and
// projects fit decides, and no other is looked at.
//
//	policy.yaml ── Load ──> Rules ──┐
//	                                Policy ── For(user, slice) ──> Permit
//	store ── Stage, Publish … ──> Usage ┘
//
// A Permit is one rule for one user in one slice, with what is held at that
// moment. It is asked inside the decision that gives something, so that of two
// calls at the same time the second sees what the first got.
//
// Who is meant: the user is who holds the right, never the tool that speaks for
// them; the project is the authority of the slice. Slivers count for the user
// who made them, for their slice and for its project, from their reservation
// until they are released.
//
// How long: first is the longest lease that Provision gives. A renewal reaches
// at most renew from the moment of the call, and no lease of a sliver ends later
// than longest after its creation. The limits of the site hold beside these, and
// a rule never refuses to end a lease sooner.
//
// What is refused is refused in the words of the rule, with code 7. This package
// reads files, and nothing else: no provider, no clock, no network.
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
