// Package am is the vocabulary and the rules of an aggregate manager: slices,
// slivers, leases, allocation and operational states, actions, result codes,
// and the one table of transitions from which code, answers, documentation
// and the advertised state machine are all made.
//
// It is pure: no clock, no disk, no wire. Every other room speaks in its nouns.
//
//	Slice ──< Sliver ── Desired   what methods promised
//	            │  └─── Observed  what the provider last said
//	            └──< Task         a generation of that promise still to be made true
//
// It answers AM API v3, "Sliver allocation states", "Sliver operational
// states" and "Return codes".
package am
