package match

import (
	"fmt"
	"slices"
)

// Requirements are the constraints of one node.
type Requirements struct {
	tests    []test  // the required constraints, in the order of the request
	required demands // the same
	prefer   []group // highest weight first
}

// demands has one demand for each feature, in the order of the first constraints.
type demands []demand

type group struct {
	at     int // its place in the request
	weight int
	tests  []test
}

// Preference is a group of constraints that is applied as a whole or not at all.
type Preference struct {
	Weight      int
	Constraints []Constraint
}

// New checks constraints and preferences. It fails with a *ConflictError if the required
// constraints contradict each other, or if those of one preference do.
func New(require []Constraint, prefer []Preference) (*Requirements, error) {
	count := len(require)
	for _, p := range prefer {
		count += len(p.Constraints)
	}
	if count > MaxConstraints {
		return nil, fmt.Errorf("%d constraints are too many; a node has at most %d", count, MaxConstraints)
	}
	r := &Requirements{}
	var err error
	if r.tests, err = parseAll(require); err != nil {
		return nil, err
	}
	if r.required, err = demands(nil).and(r.tests); err != nil {
		return nil, err
	}
	for i, p := range prefer {
		if p.Weight < 1 || p.Weight > MaxWeight {
			return nil, fmt.Errorf("the weight %d of a preference is not between 1 and %d", p.Weight, MaxWeight)
		}
		if len(p.Constraints) == 0 {
			return nil, fmt.Errorf("the preference with weight %d has no constraint", p.Weight)
		}
		tests, err := parseAll(p.Constraints)
		if err != nil {
			return nil, err
		}
		if _, err := demands(nil).and(tests); err != nil {
			return nil, err
		}
		r.prefer = append(r.prefer, group{i, p.Weight, tests})
	}
	slices.SortStableFunc(r.prefer, func(a, b group) int { return b.weight - a.weight })
	return r, nil
}

func parseAll(list []Constraint) ([]test, error) {
	tests := make([]test, len(list))
	for i, c := range list {
		var err error
		if tests[i], err = c.parse(); err != nil {
			return nil, err
		}
	}
	return tests, nil
}

// and returns the demands with further constraints; d does not change. It returns a *ConflictError if no value
// satisfies all constraints on a feature.
func (d demands) and(tests []test) (demands, error) {
	d = slices.Clone(d)
	for _, t := range tests {
		i := slices.IndexFunc(d, func(x demand) bool { return x.feature == t.Feature })
		if i < 0 {
			i = len(d)
			d = append(d, demand{feature: t.Feature})
		}
		var err error
		if d[i], err = d[i].and(t); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Capabilities returns what a candidate offers of a feature; ok is false if nothing is known.
type Capabilities func(feature string) (c Capability, ok bool)

// Granted is the value of a feature that a node gets.
type Granted struct {
	Feature, Value string
	// Number is the value of a count, or of a size in bytes. Over is by how much a number exceeds
	// the least value that satisfies the constraints.
	Number, Over float64
}

// Grant is the result of a match.
type Grant struct {
	Values []Granted // of each constrained feature, in the order of the request
	Score  int       // the sum of the weights of the applied preferences
	// Applied are the places of the applied preferences in the request, in ascending order.
	Applied []int
}

// Match returns what a candidate grants. ok is false if it does not satisfy all required
// constraints.
func (r *Requirements) Match(offers Capabilities) (g Grant, ok bool) {
	values, ok := r.required.match(offers)
	if !ok {
		return Grant{}, false
	}
	g.Values = values
	all := r.required
	for _, p := range r.prefer {
		more, err := all.and(p.tests)
		if err != nil {
			continue // it excludes what is required, or a preference with a higher weight
		}
		if values, ok := more.match(offers); ok {
			all, g.Values = more, values
			g.Score += p.weight
			g.Applied = append(g.Applied, p.at)
		}
	}
	slices.Sort(g.Applied)
	return g, true
}

// match returns the values that a candidate grants for all demands, or false if it does not satisfy one.
func (d demands) match(offers Capabilities) ([]Granted, bool) {
	values := make([]Granted, len(d))
	for i := range d {
		c, ok := offers(d[i].feature)
		if !ok {
			return nil, false
		}
		v, ok := d[i].grant(c)
		if !ok {
			return nil, false
		}
		values[i] = Granted{d[i].feature, v.String(), v.number, v.number}
		if low := d[i].low; low != nil {
			values[i].Over -= low.value.number
		}
	}
	return values, true
}
