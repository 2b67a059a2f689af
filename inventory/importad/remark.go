package importad

import (
	"fmt"
	"strings"
)

// remarks are messages for an operator, counted by subject.
type remarks struct {
	order []string
	by    map[string]*remark
}

type remark struct {
	count    int
	examples []string
}

const maxExamples = 5

// add adds n to the count of a subject. example names one of the counted things; it may
// be empty.
func (r *remarks) add(subject, example string, n int) {
	x := r.by[subject]
	if x == nil {
		if r.by == nil {
			r.by = map[string]*remark{}
		}
		x = &remark{}
		r.by[subject] = x
		r.order = append(r.order, subject)
	}
	x.count += n
	if example != "" && len(x.examples) <= maxExamples {
		x.examples = append(x.examples, example)
	}
}

func (r *remarks) lines() (list []string) {
	for _, subject := range r.order {
		x := r.by[subject]
		line := fmt.Sprintf("%s: %d", subject, x.count)
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
