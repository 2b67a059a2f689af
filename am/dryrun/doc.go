// Package dryrun asks providers for a dry run before something is reserved.
//
//	slivers ── by provider ─┬─> get ─> set, noop ─> get ─┬─> an error for each that cannot be had
//	                        └─> get ─> set, noop ─> get ─┘
//
// Each provider whose metadata say probe: true gets one batch with all chosen
// resources of the slice. If it has no answer to that, their components are not asked
// about again for a minute. The providers are asked at the same time
// and in bounded time; nothing is held meanwhile but the reservation, whose
// lease ends soon after. A provider that did not only say what it would do, but
// did it, is found out by the second get: what it made is removed, and it is not
// asked again until the next start.
//
// The package makes no promise and reads no store. PROVIDER.md in package
// provider tells authors what a dry run is.
//
// # Decisions
//
//   - reservation of a crashed dry run: it needs no cleanup, because its lease ends 30 s after the
//     latest end of the dry run: [Prober.Timeout].
//   - provider that does not answer: for a minute unbound nodes avoid its components, and bound
//     nodes get the same code at once: [Prober.Unanswering].
//   - dry run that makes something: the resource is removed, and the provider is not asked again
//     until the next start: [Prober.catch].
package dryrun
