package policy

import (
	"strings"

	"patchbay/am/urn"
	"patchbay/inventory/yamlfile"
)

// terms are terms and conditions that users have to accept first.
type terms struct {
	url      string
	file     string          // of those who have
	accepted map[string]bool // keys of users
}

// missingMark is by what clients see that a refusal is about terms; they show the
// web address that follows.
const missingMark = "[T&C-APPROVAL-MISSING]"

// readAccepted reads the URN of a user on each line; what follows a blank, and
// lines that begin with #, are remarks. A line that names no user counts for
// nobody and is told.
func readAccepted(text []byte, file string) (map[string]bool, []yamlfile.Problem) {
	accepted := make(map[string]bool)
	var problems []yamlfile.Problem
	line := 0
	for l := range strings.SplitSeq(string(text), "\n") {
		line++
		words := strings.Fields(l)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		u, err := urn.Parse(words[0])
		switch {
		case err == nil && u.Type == urn.User:
			accepted[u.Key()] = true
		case len(problems) == maxRemarks: // enough is told
		case err != nil:
			problems = append(problems, yamlfile.Problem{File: file, Line: line, Msg: err.Error() + "; it counts for nobody"})
		default:
			problems = append(problems, yamlfile.Problem{File: file, Line: line, Msg: u.String() + " is no user; it counts for nobody"})
		}
	}
	return accepted, problems
}
