// Package schemas embeds our XML schemas of GENI RSpec version 3 and its
// extensions, and a catalogue of their namespaces.
//
// They inform: what a schema finds is shown, and never refuses a request. What
// Patchbay writes is valid by them.
//
//	rspec/   the core: ad, request, manifest, and what they share
//	ext/     one file per extension and spelling of its namespace; a file
//	         without a target namespace is included under several
//	ad.xsd, request.xsd, manifest.xsd
//	         the core and each extension imported once, so that a lax
//	         xs:any judges the extensions, too
//
// The verdicts are those of the schemas that are published under
// http://www.geni.net/resources/rspec/3, but for two places where manifests are
// wider: a link needs no vlantag, and a host may have an ipv4. Extensions for
// which nothing usable is published, or more is in use than is published, say
// so in their files. No text is taken from the published files.
//
// The package imports nothing of ours and judges nothing; xmltree does.
package schemas
