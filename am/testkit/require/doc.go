// Package require skips tests that lack a tool, a right or a corpus on this host.
// Such a test is skipped with the reason. If PATCHBAY_REQUIRE names the missing
// requirement, the test fails instead. So a machine that must run all tests cannot skip
// some silently.
//
// PATCHBAY_REQUIRE is a list of names with commas between them: root, netns,
// tun, ssh, seccomp, shared, or the name of a program such as openssl or xmlsec1.
// PATCHBAY_CORPUS is the folder of the corpus.
//
// Only tests import it.
package require
