package importad

import (
	"fmt"
	"strings"
)

// remarks are what an operator is told, counted by what it is.
type remarks struct {
	order []string
	by    map[string]*remark
}

type remark struct {
	count    int
	examples []string
}

// maxExamples is how many examples a remark names.
const maxExamples = 5

// add counts what, n times, with an example, which is one line, or "".
func (r *remarks) add(what, example string, n int) {
	x := r.by[what]
	if x == nil {
		if r.by == nil {
			r.by = map[string]*remark{}
		}
		x = &remark{}
		r.by[what] = x
		r.order = append(r.order, what)
	}
	x.count += n
	if example != "" && len(x.examples) <= maxExamples {
		x.examples = append(x.examples, example)
	}
}

// lines are the remarks, one line each.
func (r *remarks) lines() (list []string) {
	for _, what := range r.order {
		x := r.by[what]
		line := fmt.Sprintf("%s: %d", what, x.count)
		if len(x.examples) > maxExamples {
			x.examples[maxExamples] = "…"
		}
		if len(x.examples) > 0 {
			line += " (" + strings.Join(x.examples, ", ") + ")"
		}
		list = append(list, line)
	}
	return list
}
