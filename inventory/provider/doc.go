// Package provider runs the executables that create and remove resources.
//
// A provider is one executable file, NAME.prov, that follows libral's JSON convention.
// Patchbay starts it for one action: describe, get or set. The provider reads one JSON
// object from standard input, writes an answer to standard output and ends. PROVIDER.md is
// the contract for the provider's author, and package providertest has the tests that the
// author runs.
//
//	Load ─→ *Provider ─┬─ Get(names)    reads the state    → Result per name
//	                   └─ Set(updates)  changes the state  → Change per update
//
// The attributes of resources of type node are in node.go, with the conversions from
// am.Sliver to a Resource and from a Resource to am.Observed.
//
// Answers are untrusted: they are limited in time, size and count, and checked against
// the attributes that the provider declared. After a call, all processes of the provider's
// process group have ended and the call's descriptors are closed. A failed call returns an
// *Error. The error's Kind is the meaning of the failure, and Temporary reports whether a
// retry can help.
//
// The package never decides when to call a provider, never retries, and stores nothing
// between calls. It does not know the states and error codes of the API.
//
// It implements libral's "JSON calling convention" with the additions parallel, probe
// and timeouts.
//
// # Decisions
//
//   - set that finds no free place: it does not count as a failed attempt, because the provider
//     was not started: [ErrNoPlace].
//   - provider without the attribute state: every node that get reports counts as ready, so that a
//     short script suffices: [AttrState].
//   - arrays: they are compared as sets, and JSON items by the keys that Patchbay writes, so that
//     a provider may add other keys: [Diff].
//   - texts of errors: Msg is for experimenters and Detail for operators, because file names
//     belong in the log and not in an answer to experimenters: [Error].
//   - end of a call: the process group is killed before it is reaped; a process that must outlive
//     the call uses setsid: [patchbay/am/executable.awaitExit].
//   - install and execute: a provider receives these steps when it creates a node and in the dry
//     run before that, and never again: [NewNode].
package provider
