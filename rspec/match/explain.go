package match

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Candidates are candidates with the same capabilities.
type Candidates struct {
	Offers Capabilities
	Number int
}

// Removal has the number of candidates that a constraint removes. Only candidates that satisfy
// all earlier constraints count.
type Removal struct {
	Constraint Constraint
	Removed    int
}

// NoneError reports that no candidate satisfies all required constraints.
type NoneError struct {
	Candidates int
	Removals   []Removal // of constraints that remove a candidate, up to the one that removes the last
	// Nearest are the values of the last removal's feature that come nearest to its
	// constraint. It is empty if the removed candidates do not have the feature.
	Nearest []string
}

// Error reports how many candidates each constraint removes, and the nearest values.
func (e *NoneError) Error() string {
	if e.Candidates == 0 {
		return "there is no candidate"
	}
	var parts []string
	for _, r := range e.Removals {
		parts = append(parts, fmt.Sprintf("%s removes %d", r.Constraint, r.Removed))
	}
	last := e.Removals[len(e.Removals)-1].Constraint
	nearest := fmt.Sprintf("none of these says what its %s is", last.Feature)
	if len(e.Nearest) > 0 {
		nearest = "the nearest is " + strings.Join(e.Nearest, " or ")
	}
	return fmt.Sprintf("of %d candidates, %s; %s", e.Candidates, strings.Join(parts, ", "), nearest)
}

const maxNearest = 3

// Removals returns how many candidates each required constraint removes, and in left those that satisfy
// all. If a constraint removes the last ones, Removals stops there: none is true, and left has those last ones.
func (r *Requirements) Removals(list []Candidates) (all []Removal, left []Candidates, none bool) {
	left = list
	var required demands
	for _, t := range r.tests {
		required, _ = required.and([]test{t}) // New has checked that they do not conflict
		var kept []Candidates
		removed := 0
		for _, c := range left {
			if _, ok := required.match(c.Offers); ok {
				kept = append(kept, c)
			} else {
				removed += c.Number
			}
		}
		if removed > 0 {
			all = append(all, Removal{t.Constraint, removed})
		}
		if len(kept) == 0 {
			return all, left, true
		}
		left = kept
	}
	return all, left, false
}

// Explain returns why no candidate satisfies the required constraints, or nil if one does.
func (r *Requirements) Explain(list []Candidates) *NoneError {
	removals, left, none := r.Removals(list)
	if !none {
		return nil
	}
	e := &NoneError{Removals: removals}
	for _, c := range list {
		e.Candidates += c.Number
	}
	if len(removals) > 0 {
		for _, t := range r.tests {
			if t.Constraint == removals[len(removals)-1].Constraint {
				e.Nearest = nearest(t, left)
				break
			}
		}
	}
	return e
}

// nearest returns the candidates' values that come nearest to satisfying the test. Texts have
// no distance: all are equally near.
func nearest(t test, list []Candidates) (near []string) {
	best := math.Inf(1)
	for _, x := range list {
		c, ok := x.Offers(t.Feature)
		if !ok {
			continue
		}
		distance := math.MaxFloat64
		if c.Kind == t.value.kind && (c.Kind == Count || c.Kind == Size) {
			distance = max(c.Min-t.value.number, t.value.number-c.Max, 0)
		} else if c.Kind == t.value.kind && c.Kind == Real {
			distance = math.Abs(c.values[0].number - t.value.number)
		}
		if distance < best {
			best, near = distance, nil
		}
		if text := c.String(); distance == best && len(near) < maxNearest && !slices.Contains(near, text) {
			near = append(near, text)
		}
	}
	return near
}
