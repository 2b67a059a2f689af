// Package schemas embeds our XML schemas of GENI RSpec version 3 and its
// extensions, and names their namespaces.
//
// A violation of a schema is only reported; Patchbay refuses no request because of it.
// Advertisements are valid, and so is the text that Patchbay adds to a request in a
// manifest.
//
//	rspec/   the core: ad, request, manifest, and their common parts
//	ext/     one file per namespace of each extension; the files of several
//	         namespaces may include a common file without a target namespace
//	ad.xsd, request.xsd, manifest.xsd
//	         import the core and each extension once, so that a lax xs:any
//	         validates extensions, too
//
// The schemas accept the same documents as the schemas published under
// http://www.geni.net/resources/rspec/3, with two exceptions in manifests: a link needs
// no vlantag, and a host may have an ipv4. For some extensions no usable schema is
// published, or the published schema lacks elements that are in use. Our files of these
// extensions say so. No text is copied from the published files.
//
// The package imports no other package of Patchbay. Package xmltree validates documents.
package schemas
