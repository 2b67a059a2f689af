// Package conformance checks what another aggregate keeps of its specifications.
//
// A check (check.go) is one rule: its name, the clause of the specification, the checks that it
// needs, and a function. Run runs them in order, with what earlier ones have found out, and
// returns a verdict for each: kept, broken, not offered or not tried. A check that needs a broken
// one is not tried. Every answer is also checked for its types; a malformed answer makes the
// checks of the group types broken, and the check that asked not tried.
//
// The probe keeps what goes over the wire during each check. It deletes what it has created, also
// when its context ends, and reports what it could not delete.
//
// # Decisions
//
//   - answers are read as they come, not by the typed calls of am/client, which would refuse a
//     wrong answer before a check can name it: [Run].
package conformance
