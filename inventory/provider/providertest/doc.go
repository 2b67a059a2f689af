// Package providertest holds the tests that the author of a provider runs, as a Go
// test or by patchbay check.
//
// Check only looks: it reads what there is and makes dry runs with names
// nobody has, so it may be run on a site in use. Life takes a node through
// everything: made, restarted, given accounts, switched off and on, removed,
// and the provider killed in the middle.
//
//	metadata ─> get ─> many at once ─> dry runs ─┬─> step: dry run, set, get until it is so ─> …
//	              └── Check ─────────────────────┘└── Life ─────────────────────────────────┘
//
// Both return findings, one sentence each; Run is the whole for a Go test:
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, "rack.prov", providertest.Options{
//			Node: provider.Resource{"component": "pc1", "image": "debian-12"},
//		})
//	}
//
// The rules are those of PROVIDER.md in package provider, by its headings. What
// the manager puts up with is a finding that is a Note.
package providertest
