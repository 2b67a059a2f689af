package policy

import (
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

type terms struct {
	url      string
	file     string          // the list of users who have accepted
	accepted map[string]bool // keys of users
}

// missingMark begins the refusal of a user who has not accepted the terms. Clients recognize it
// and show the web address at the end of the refusal.
const missingMark = "[T&C-APPROVAL-MISSING]"

// readAccepted reads the URN of a user on each line. Text after a blank, and lines that begin
// with #, are comments. It returns a problem for each line without the URN of a user.
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
		case len(problems) == maxRemarks:
		case err != nil:
			problems = append(problems, yamlfile.Problem{File: file, Line: line, Msg: err.Error() + "; the line is ignored"})
		default:
			problems = append(problems, yamlfile.Problem{File: file, Line: line, Msg: u.String() + " is not a user; the line is ignored"})
		}
	}
	return accepted, problems
}
