// Package providertest contains the tests that the author of a provider runs, as a Go
// test or by patchbay check.
//
// Check changes nothing: it gets the existing resources and makes dry runs with unused
// names, so it may run on a site in use. Life creates a node, restarts it, gives it
// accounts, switches it off and on, and removes it. Life also kills the provider in the
// middle of its work.
//
//	metadata ─> get ─> many at once ─> dry runs ─┬─> step: dry run, set, get until done ─> …
//	              └── Check ─────────────────────┘└── Life ─────────────────────────────────┘
//
// Both return findings of one line each. Run calls one of them in a Go test:
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, "rack.prov", providertest.Options{
//			Node: provider.Resource{"component": "pc1", "image": "debian-12"},
//		})
//	}
//
// A finding names the heading in PROVIDER.md, in package provider, whose rule is broken. A
// violation that the manager tolerates is a finding with Note set.
package providertest
