// Package faithful holds the manifest against its request, byte by byte. It is
// a second pair of eyes: nothing here but tests, which see package rspec only
// from outside and know the rules from their description, not from its code.
//
//	request ──┐ own tokens, own    list of edits: which bytes,     every edit stands
//	          ├─ names, own walk ─ where, put in, left out or ──── in the table of rules;
//	manifest ─┘                    changed                         every rule was followed
//
// The documents are the corpus (PATCHBAY_CORPUS), read as nobody's and as all ours, what a
// generator makes of them without changing their meaning, the hand-written ones
// in testdata, and what a fuzzer finds.
package faithful
