package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems keeps a slip that is repeated, such as in a long range, readable.
const maxProblems = 100

// Problem is one mistake in a file.
type Problem struct {
	File string
	Line int // 0: the file as a whole
	Msg  string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Msg)
}

// Error says all that is wrong with a file, at least one thing, in the order of its
// lines.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err is nil or an *Error with the mistakes so far: the first hundred by line, and
// how many more there are.
func (r *Reader) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := slices.Clone(r.problems)
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems:maxProblems], Problem{r.File, 0, fmt.Sprintf("and %d more mistakes; mend these first", more)})
	}
	return &Error{all}
}
