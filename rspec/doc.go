// Package rspec reads requests, and writes manifests and advertisements of GENI
// RSpec version 3.
//
// ParseRequest checks the form of a request and the names in it, and finds the own
// nodes: the nodes that belong to this aggregate. The package does not know the site's
// components and their availability. Elements are identified by namespace and name,
// never by prefix. An element counts only where the schema allows it: an element inside
// an extension belongs to the extension. Parts for other aggregates are not checked.
// Reading continues after a mistake, so that a refusal lists all mistakes. Each mistake
// is a Problem with its place in the received bytes and a remedy. A Problem without a
// Kind is a remark. Only text that is not XML or exceeds the Limits is refused with a
// single Problem. A stored request (ReadOptions.Stored) can be read even if the rules
// have become stricter since it was accepted.
//
// A manifest consists of the request's own bytes with edits. Attributes are inserted at
// the end of a start tag and children before an end tag; facts of an earlier
// manifest are cut from own nodes. Every other byte remains unchanged: prefixes,
// comments, CDATA, white space, quotes, other managers' nodes and unknown
// extensions. Inserted text declares its own namespace and is ASCII, so it is
// correct in any context and encoding.
//
//	bytes ── xmltree (elements and the namespaces of their names)
//	      └─ one pass of tokens (positions of elements) ── both must agree
//	                  └── Request ── Part{Request, facts} ── WriteManifest
//	Site ── Advertiser, fragments prepared once ── Append
//
// Request.Expand edits a request in the same way: it inserts what was compiled from its
// templates. There are three other edits. A byte order mark and white space before the
// document are removed, XML 1.1 is written as 1.0, and ManifestOptions.ASCII
// turns characters beyond ASCII into references, except in names.
//
// The package never refuses a request because of a schema (CheckSchemas only
// reports), never re-serializes a tree, and never decides about reservations. It
// reads only the bytes that the caller passes to it.
//
// It implements RSpec version 3 (request, manifest, advertisement), our extensions match/1
// (constraints of nodes), setup/1 (steps), template/1 (sources that others compile), net/1 (wishes
// about networks, and links that join others) and origin/1 (sources of nodes, and notices), TOSCA's
// archive and script artifacts in steps, the extensions opstate/1, user/1, proxy/1.0, sliver-info/1,
// shared-vlan/1 and Fed4FIRE's monitoring/1 in both of their namespaces, and Emulab's vnode,
// routable_control_ip, node_type and rspec_routable_addresses. It only copies Emulab's user-data/1,
// which are named values for readers of the manifest, and not user data of cloud-init.
//
// # Decisions
//
//   - several mistakes: all are reported by line. The answer's code is
//     that of the gravest Kind: BadVersion, then TooBig, BadArgs, Unsupported: [RequestError].
//   - stored requests: they are read without today's limits and settings, so that a changed
//     configuration never breaks Describe: [ReadOptions].
//   - removed facts: the white space before them is removed, too, so that a manifest does not grow
//     if it is sent as a request again: [splices].
//   - size of a manifest: at most 64 MiB are added, because facts repeat in every node:
//     [ErrTooLarge].
//   - mistakes in steps: a plain install or execute with a mistake is left out with a remark, since
//     other aggregates ignore it, too; one with our extension or TOSCA is refused: [serviceReader].
//   - several requests of a slice: an unused prefix is declared once on the root; a prefix
//     that already means another namespace is declared at each element that uses it:
//     [commonRoot.declare].
package rspec
