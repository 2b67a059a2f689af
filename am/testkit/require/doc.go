// Package require skips tests that lack a tool, a right or a corpus on this host.
// Where that is missing the test is skipped with the reason, unless the
// environment names it in PATCHBAY_REQUIRE: then the test fails, so that a machine
// which is meant to prove everything cannot quietly prove less.
//
// PATCHBAY_REQUIRE is a list of names with commas between them: root, netns,
// tun, ssh, seccomp, shared, or the name of a program such as openssl or xmlsec1.
// PATCHBAY_CORPUS is the folder of the corpus.
//
// Only tests import it.
package require
