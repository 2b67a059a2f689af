// Package setup installs and executes, inside a node, what the request asks for.
// It is this program under another name, started by the node's agent; outside, the
// testbed decides what is done when, and notes what came of it.
//
// Two words follow the name, and the number of the step:
//
//	run N    reads an Order, begins step N, says so, and goes on by itself
//	wait N   tells how far step N is, and what came of it when it has ended
//
// Both answer with lines of JSON, each a Report. A step that has begun never
// begins again: "run" only tells of it. In the node there are
//
//	/var/lib/patchbay/services/N.lock    locked while the step runs; holds its progress
//	                           N.began   made before the step does anything
//	                           N.status  the last Report, by a rename
//	/var/log/patchbay/N-install.log      what the step printed, for root and the first account;
//	                  N-execute.log      10 MiB at most
//
// All of them belong to the node's root, so they prove nothing to the testbed:
// they only keep it from asking twice for what was already begun.
//
// What an archive holds is read twice. The first time everything in it is looked
// at, so that an archive with a name that leads outside, a link that does, a
// device, or more than the disk takes, leaves nothing behind. Where it is
// unpacked, somebody with an account in the node may rename folders meanwhile:
// each name is opened below the place by the kernel's own rules, no link is
// followed, and below the account's home all is done with that account's rights
// and belongs to it. Elsewhere it belongs to root. Set-id bits are left out,
// since owners are not kept either; times and all other modes are kept.
//
// # Decisions
//
//   - steps: a step runs once, because the journal outside the node has it before it begins:
//     [Assignment.run].
//   - downloads: HTTP/1.1, 10 redirects, none from https to http, and at most 4 GiB, the disk, and
//     10 minutes: [client].
package setup
