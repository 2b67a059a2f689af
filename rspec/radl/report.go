package radl

import (
	"fmt"
	"slices"

	"patchbay/rspec"
)

// maxProblems limits the mistakes that are reported, and the warnings.
const maxProblems = 20

// report collects the problems of a document.
type report struct {
	mistakes, warnings []rspec.Problem
	more               int // beyond maxProblems
}

// refuse records a mistake.
func (r *report) refuse(kind rspec.Kind, at Place, remedy, format string, args ...any) {
	r.add(rspec.Problem{Kind: kind, Line: at.Line, Column: at.Column, Msg: fmt.Sprintf(format, args...), Remedy: remedy})
}

// warn records a warning.
func (r *report) warn(at Place, remedy, format string, args ...any) {
	r.refuse(0, at, remedy, format, args...)
}

func (r *report) add(p rspec.Problem) {
	list := &r.mistakes
	if p.IsRemark() {
		list = &r.warnings
	}
	if len(*list) >= maxProblems {
		r.more++
		return
	}
	*list = append(*list, p)
}

// failed reports whether there is a mistake.
func (r *report) failed() bool { return len(r.mistakes) > 0 }

// problems returns all problems by their places.
func (r *report) problems() []rspec.Problem {
	all := rspec.ByLine(slices.Concat(r.mistakes, r.warnings))
	if r.more > 0 {
		all = append(all, rspec.Problem{Msg: fmt.Sprintf("and %d more problems", r.more)})
	}
	return all
}
