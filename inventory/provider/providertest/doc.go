// Package providertest is the suite an author of a provider runs.
//
// Check only looks: it reads what there is and makes dry runs with a name
// nobody has, so it may be run on a site in use. Life takes one node through
// everything: made, restarted, given accounts, switched off and on, removed.
//
// Both return findings, one sentence each, for a test as well as for a
// command; Run is the whole for a Go test:
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, "rack.prov", providertest.Options{
//			Node: provider.Resource{"component": "pc1", "image": "debian-12"},
//		})
//	}
//
// The rules are those of PROVIDER.md in package provider, by its headings.
package providertest
