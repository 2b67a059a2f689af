package generate

import (
	"fmt"
	"slices"

	"patchbay/rspec"
)

// maxProblems limits the mistakes that are reported, and the warnings.
const maxProblems = 20

// Report collects the problems of a source.
type Report struct {
	mistakes, warnings []rspec.Problem
	more               int // beyond maxProblems
}

// Refuse records a mistake, or a warning if kind is 0.
func (r *Report) Refuse(kind rspec.Kind, line, column int, remedy, format string, args ...any) {
	r.Add(rspec.Problem{Kind: kind, Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Add records problems.
func (r *Report) Add(problems ...rspec.Problem) {
	for _, p := range problems {
		list := &r.mistakes
		if p.IsRemark() {
			list = &r.warnings
		}
		if len(*list) >= maxProblems {
			r.more++
			continue
		}
		*list = append(*list, p)
	}
}

// Failed reports whether there is a mistake.
func (r *Report) Failed() bool { return len(r.mistakes) > 0 }

// IsFull reports whether further mistakes would only be counted.
func (r *Report) IsFull() bool { return len(r.mistakes) >= maxProblems }

// Problems returns all problems by their places.
func (r *Report) Problems() []rspec.Problem {
	all := rspec.ByLine(slices.Concat(r.mistakes, r.warnings))
	if r.more > 0 {
		all = append(all, rspec.Problem{Msg: fmt.Sprintf("and %d more problems", r.more)})
	}
	return all
}
