// Package dryrun asks providers for a dry run before something is reserved or changed.
//
//	slivers ── by provider ─┬─> get ─> set, noop ─> get ─┬─> an error for each that cannot be created or changed
//	                        └─> get ─> set, noop ─> get ─┘
//
// Each provider whose metadata say probe: true gets one batch with all chosen resources of the
// slice, and with those of its nodes that it must change. If a provider does not answer, it gets
// no dry run with the same components for a minute. The dry runs of several providers run
// concurrently, with a time limit. Meanwhile the new slivers are reserved with a lease that ends
// soon after. The second get shows whether a provider has really created resources. These are
// removed, and that provider gets no more dry runs until the next start.
//
// The package makes no reservation and reads no store. PROVIDER.md in package provider
// describes dry runs for authors.
//
// # Decisions
//
//   - reservation of a crashed dry run: it needs no cleanup, because its lease ends 30 s after the
//     latest time at which the dry run can end: [Prober.Timeout].
//   - provider that does not answer: for a minute, nodes that name no component avoid these
//     components, and nodes that name one get the same error at once, without a dry run:
//     [Prober.Unanswering].
//   - dry run that makes something: the resource is removed, and the provider is not asked again
//     until the next start: [Prober.removeCreated].
package dryrun
