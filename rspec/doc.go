// Package rspec reads requests and writes manifests and advertisements: GENI
// RSpec version 3.
//
// A Request is a request that was checked: its form, its names, and which of
// its nodes are this aggregate's. What the site has and what is free is not its
// business. Elements are known by namespace and name, never by prefix, and only
// where they belong: what lies inside an extension is the extension's. What is
// another aggregate's is never judged. Reading goes on after a mistake, so that
// a refusal tells all of them at once, each a Problem with its place in the
// bytes as received and what would have been accepted; remarks are Problems
// without a Kind. Only a text that is no document, or beyond the Limits, is
// refused with one. A Stored request is read whatever today's rules say.
//
// A manifest is the request's own bytes with splices: attributes go
// before the end of a start tag, children before an end tag, stale facts of an
// earlier manifest are cut from our own nodes, and every other byte stays:
// prefixes, comments, CDATA, white space, quotes, other managers' nodes,
// extensions nobody here has heard of. What is spliced in declares its own
// namespace and is ASCII, so it is right wherever it lands.
//
//	bytes ── xmltree (is it XML? what does each name mean?)
//	      └─ one pass of tokens (where is it?) ── must agree
//	                  └── Request ── Part{Request, facts} ── WriteManifest
//	Site ── Advertiser, fragments prepared once ── Append
//
// The only edits beside ours: a byte order mark and white space in front of the
// document go, XML 1.1 is written as 1.0, and ManifestOptions.ASCII turns
// characters beyond ASCII into references, names apart.
//
// It refuses nothing for a schema's sake (Judge only tells what schemas say),
// never re-serializes a tree, never decides what is granted, and reads nothing
// but the bytes it is given.
//
// It answers RSpec version 3 (request, manifest, advertisement), and the
// extensions opstate/1, user/1, proxy/1.0, sliver-info/1, shared-vlan/1 and
// Fed4FIRE's monitoring/1 in both of their namespaces, and of Emulab's vnode,
// routable_control_ip, node_type and rspec_routable_addresses.
//
// # Decisions
//
//   - several mistakes: all are reported by line; too large before wrong before unavailable
//     decides the code: [RequestError].
//   - stored requests: read without the limits and settings of today, so that a changed
//     configuration never breaks Describe: [ReadOptions].
//   - cutting an old fact: takes the white space before it, so that asking again with a manifest
//     settles: [splices].
//   - size of a manifest: at most 64 MiB of additions, because facts repeat in every node:
//     [ErrTooLarge].
//   - several requests of a slice: a free prefix is declared once on the root, a conflicting one
//     at each element that uses it: [commonRoot.declare].
package rspec
