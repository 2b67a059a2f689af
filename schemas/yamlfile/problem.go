package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const maxProblems = 100

// Problem is one mistake in a file.
type Problem struct {
	File string
	Line int // 0 for the whole file
	Msg  string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Msg)
}

// Error holds all mistakes in a file, at least one, in the order of lines.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil if there is no mistake. Otherwise it returns an *Error with the first
// maxProblems mistakes in the order of lines, and the number of further ones.
func (r *Reader) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := slices.Clone(r.problems)
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems:maxProblems], Problem{r.File, 0, fmt.Sprintf("and %d more mistakes; fix these first", more)})
	}
	return &Error{all}
}
