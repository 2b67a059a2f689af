// Package am defines the types and rules of an aggregate manager: slices,
// slivers, leases, allocation and operational states, actions, result codes,
// and the transition table. Code, answers, documentation and the advertised state
// machine all follow that one table.
//
// The package is pure: it reads no clock, no disk and no network. Packages
// that decide or carry out calls use its types.
//
//	Slice ──< Sliver ── Desired   the state that methods requested
//	            │  └─── Observed  the state that the provider last reported
//	            └──< Task         work that leads to one generation of the desired state
//
// It implements AM API v3, "Sliver allocation states", "Sliver operational
// states" and "Return codes".
package am
