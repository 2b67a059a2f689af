// Package setup carries out the install and execute services of a request, inside the node. It
// is this executable under another name, and the node's agent starts it. The testbed outside the
// node decides when each step runs, and records the results.
//
// The arguments are a verb and the number of the step:
//
//	run N    reads an Assignment, starts step N, reports that, and runs it in the background
//	wait N   reports the progress of step N, and its result when it has ended
//	end N    kills step N if it runs, with the sessions of its commands, and reports the step
//
// They print lines of JSON, each a Report. An attempt of a step is started only once: "run" of an
// attempt that has begun only reports its state, and a larger attempt begins the step anew. Files
// in the node:
//
//	/var/lib/patchbay/services/N.lock    locked while the step runs; contains its progress
//	                           N.began   the last attempt, written before it does anything
//	                           N.status  the result of an attempt
//	/var/log/patchbay/N-install.log      output of the step, readable for root and the first
//	                  N-execute.log      account; 10 MiB at most
//
// The node's root owns these files, so the testbed does not trust them: they only prevent a
// second start.
//
// An archive is read twice. The first pass checks all entries, so that nothing of a refused
// archive is unpacked: one with names or links that lead outside, with devices, or with more
// data than fits. During the second pass, which unpacks it, other users of the node may rename
// folders. So each name is opened relative to the target folder without following links. Below
// the home of the account that runs the steps, everything is done with the rights of that
// account and belongs to it; elsewhere it belongs to root. Set-id bits are dropped, since
// owners are dropped too. Times and other modes are kept.
//
// # Decisions
//
//   - steps: a step runs once, because the journal outside the node records it before it begins:
//     [Assignment.run].
//   - downloads: HTTP/1.1, 10 redirects, none from https to http. A download may take at most
//     4 GiB, the node's free disk, and 10 minutes: [client].
package setup
