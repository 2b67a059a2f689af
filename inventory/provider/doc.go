// Package provider runs the executables that make resources.
//
// A provider is one executable file, NAME.prov, that follows libral's JSON convention.
// Patchbay starts it for one action: describe, get or set. It reads one JSON object from
// standard input, writes an answer to standard output and ends. PROVIDER.md is the contract
// for its author, and package providertest is the suite of tests that the author runs.
//
//	Load ─→ *Provider ─┬─ Get(names)    reads the state    → Result per name
//	                   └─ Set(updates)  changes the state  → Change per update
//
// The attributes of resources of type node are in node.go, with the conversions from
// am.Sliver to a Resource and from a Resource to am.Observed.
//
// Answers are untrusted: they are limited in time, size and count, and checked against
// the attributes that the provider declared. No process of the provider's group and no
// descriptor outlives a call. A failed call returns an *Error. Its Kind is the meaning
// of the failure, and Temporary reports whether a retry can help.
//
// The package never decides when to call, never retries and keeps nothing between
// calls. It knows no slices, states or codes of the API.
//
// It implements libral's "JSON calling convention" with the additions parallel, probe
// and timeouts.
//
// # Decisions
//
//   - set while "parallel" other sets run: it does not count as an attempt, because the provider
//     was not started: [ErrNoPlace].
//   - provider without the attribute state: every node that get reports counts as ready, so that a
//     short script suffices: [AttrState].
//   - arrays: they are compared as sets, and JSON items by the keys that Patchbay writes, so that
//     a provider may add its own: [Diff].
//   - texts of errors: Msg is for experimenters and Detail for operators, because names of files
//     belong in the log: [Error].
//   - end of a call: the process group is killed before it is reaped; what must outlive the call
//     uses setsid: [patchbay/am/executable.awaitExit].
//   - install and execute: a provider receives them with a new node and in its dry run, and
//     never again: [Setup].
package provider
