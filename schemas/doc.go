// Package schemas embeds our XML schemas of GENI RSpec version 3 and its
// extensions, and a catalogue of their namespaces.
//
// Findings are only reported; they never refuse a request. Advertisements are valid, and so
// is what Patchbay adds to a request in a manifest.
//
//	rspec/   the core: ad, request, manifest, and what they share
//	ext/     one file per extension and spelling of its namespace; a file without
//	         a target namespace is included by the files of several namespaces
//	ad.xsd, request.xsd, manifest.xsd
//	         import the core and each extension once, so that a lax xs:any
//	         validates extensions, too
//
// The schemas accept the same documents as those published under
// http://www.geni.net/resources/rspec/3, with two exceptions in manifests: a link needs
// no vlantag, and a host may have an ipv4. For some extensions no usable schema is
// published, or the published one lacks elements that are in use. Their files say so. No
// text is copied from the published files.
//
// The package imports no other package of Patchbay. Package xmltree validates documents.
package schemas
