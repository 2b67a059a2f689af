// Package setup carries out the steps of a node's setup, inside the node. It is this executable
// under another name, and the node's agent starts it. The testbed outside the node decides when
// each step runs, and records the results.
//
// The arguments are a verb and the number of the step:
//
//	run N    reads an Assignment, starts step N, reports that, and runs it in the background
//	wait N   reports progress and output of step N, and its result when it has ended
//	end N    kills step N if it runs, with the sessions of its commands, and reports the step
//	deliver N  reads the SHA-256 and the content of a file of the site's catalogue, for step N
//
// They print lines of JSON, each a Report. An attempt of a step is started only once: "run" of an
// attempt that has begun only reports its state, and a larger attempt begins the step anew. Files
// in the node:
//
//	/var/lib/patchbay/services/N.lock    locked while the step runs; contains its progress
//	                           N.began   the last attempt, written before it does anything
//	                           N.status  the result of an attempt
//	                           N.SHA256.delivered  a file of the catalogue, until the step has it
//	/var/lib/patchbay/scripts/N-ATTEMPT  folder of a script with its files
//	/var/lib/patchbay/artifacts/HASH     digest of what an install with owners has unpacked
//	/var/log/patchbay/N-install.log      output of the step, readable for root and the first
//	                  N-execute.log      account; 10 MiB at most
//	                  N-userdata.log
//
// The node's root owns these files, so the testbed does not trust them: they only prevent a
// second start.
//
// An archive is read twice. The first pass checks all entries, so that nothing of a refused
// archive is unpacked: one with names or links that lead outside, with devices, or with more
// data than fits. During the second pass, which unpacks it, other users of the node may rename
// folders. So each name is opened relative to the target folder without following links. Below
// the home of the account that runs the steps, everything is done with the rights of that
// account and belongs to it; elsewhere it belongs to root. Times and modes are kept, without
// set-id bits.
//
// An install with Archive keeps numeric owners. Root unpacks it, also in homes. Between the two
// passes it creates the accounts, as useradd does and with the same lock, and then the folders,
// from the top down. The numbers of these accounts in the node replace those in the archive. A
// number that the node's user namespace does not have counts as taken. The same content is
// unpacked once: when it is recorded, a further attempt changes nothing.
//
// User data are passed to cloud-init by its data source NoCloud, and its four stages run as at
// the boot of a machine. cloud-init must not change the network, the host name and the host keys.
//
// # Decisions
//
//   - steps: an attempt runs once, because the journal outside the node records it before it
//     begins: [Assignment.run].
//   - attempts: the rename of N.began begins an attempt. A result has the number of its attempt,
//     so an older result is of no effect: [stepFiles.markBegun].
//   - end: the kernel knows which process has the lock, so no recorded process id can be that of
//     another process by then: [stepFiles.kill].
//   - owners: folders of the archive get its owners and modes even if they exist, as GNU tar does.
//     Otherwise a killed attempt would leave unfinished folders: [writer.makeFolder].
//   - downloads: HTTP/1.1, 10 redirects, none from https to http. A download may take at most
//     4 GiB, the node's free disk, and 10 minutes: [client].
package setup
