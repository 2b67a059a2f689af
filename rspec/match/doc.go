// Package match decides whether capabilities satisfy constraints, and which values are
// then granted. It is pure: it knows no requests, components or slivers.
//
//	Constraint  "memory.size >= 4G"      what a node requires or prefers
//	Capability  memory.size 1G to 64G    what a component, sliver type or image has
//	Requirements.Match(Capabilities) ──> Grant, or *Mismatch
//
// A capability is a range of whole numbers, a single real number, or a list of versions
// or texts. The constraints on one feature form an interval, or name a text. Both match
// if they have a common value. The lowest common number is granted, the highest version,
// and the text that the constraint names. So "cpu.count = 1" does not match a machine with
// 8 cores, and "cpu.count >= 2" gets 2 cores of a host that offers 1 to 16.
//
// A preference is a group of constraints with a weight. Match applies the groups in the
// order of their weights, each if it is compatible with what was applied before. The sum of
// the weights of the applied groups is the score.
//
// Units of sizes are powers of 1024 in every spelling: K, KB, Ki and KiB are 1024 bytes.
// Texts are compared without regard to case. Architectures have several spellings: amd64 is x86_64.
//
// # Decisions
//
//   - missing capability: it satisfies no constraint, because nobody knows its value:
//     [Requirements.Match].
//   - real numbers (price, cpu.performance): a capability is one number and no range, since a
//     range of them may have no lowest value above a strict bound: [Capability].
package match
