// Package provider runs the executables that make resources.
//
// A provider is one file, NAME.prov, after libral's JSON convention: it is
// started for one action (describe, get or set), reads one JSON object from
// standard input, writes one to standard output and ends. PROVIDER.md beside
// this file tells its author everything; package providertest is the suite the
// author runs.
//
//	Load ─→ *Provider ─┬─ Get(names)   what is      → Result per name
//	                   └─ Set(updates) make it so   → Change per update
//
// The vocabulary of resources of type node is in node.go, with the way from
// am.Sliver to a Resource and from a Resource to am.Observed.
//
// Every answer is outside bytes: bounded in time, size and count, checked
// against the attributes the provider declared, never trusted beyond that. No
// process of the provider's group and no descriptor outlives a call. A failed
// call carries an *Error whose Kind says what the refusal means and whose
// Temporary says whether trying again can help.
//
// The package never decides when to call, retries nothing and keeps nothing
// between calls. It knows no slices, states or codes of the API.
//
// It answers libral's "JSON calling convention" with the additions parallel,
// probe and timeouts.
//
// # Decisions
//
//   - set without a free place: it counts as no attempt, because the provider was not asked:
//     [ErrNoPlace].
//   - provider without the attribute state: what get reports counts as ready, so that a short
//     script suffices: [AttrState].
//   - arrays: they are compared as sets, and JSON items by the keys that Patchbay writes, so that
//     a provider may add its own: [Diff].
//   - texts of errors: Msg is for experimenters and Detail for operators, because names of files
//     belong in the log: [Error].
//   - end of a call: the process group is killed before it is reaped; what must outlive the call
//     uses setsid: [patchbay/am/executable.awaitExit].
//   - install and execute: a provider gets them with a new node and in its dry run, and never
//     again: [Setup].
package provider
