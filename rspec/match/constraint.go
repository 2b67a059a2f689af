package match

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Op is a comparison of a constraint.
type Op string

// Comparisons. Contains demands a text that a list has, beside others.
const (
	Equal    Op = "="
	Less     Op = "<"
	AtMost   Op = "<="
	Greater  Op = ">"
	AtLeast  Op = ">="
	Contains Op = "contains"
)

// Ops lists all comparisons.
var Ops = []Op{Equal, Less, AtMost, Greater, AtLeast, Contains}

// Limits of constraints, since hostile requests have them too.
const (
	MaxConstraints = 64  // of one node, with those of its preferences
	MaxFeature     = 64  // bytes
	MaxValue       = 256 // bytes
	MaxWeight      = 1_000_000
)

// Constraint is a condition on one feature of a component.
type Constraint struct {
	Feature string
	Op      Op
	Value   string
}

// String formats a constraint as in "cpu.count >= 4".
func (c Constraint) String() string { return fmt.Sprintf("%s %s %s", c.Feature, c.Op, c.Value) }

// ConflictError reports two constraints that no value satisfies together. Both are the same
// if no value satisfies this one.
type ConflictError struct{ First, Second Constraint }

func (e *ConflictError) Error() string {
	if e.First == e.Second {
		return fmt.Sprintf("no value satisfies %s", e.First)
	}
	return fmt.Sprintf("no value satisfies both %s and %s", e.First, e.Second)
}

// test is a constraint with its parsed value.
type test struct {
	Constraint
	value value
}

// parse checks the constraint and parses its value.
func (c Constraint) parse() (test, error) {
	switch {
	case len(c.Feature) > MaxFeature:
		return test{}, fmt.Errorf("the feature %.20q… has more than %d bytes", c.Feature, MaxFeature)
	case !isFeature(c.Feature):
		return test{}, fmt.Errorf("%q is not the name of a feature, such as cpu.count", c.Feature)
	case !slices.Contains(Ops, c.Op):
		return test{}, fmt.Errorf("%s: %.20q is not a comparison; use =, <, <=, >, >= or contains", c.Feature, string(c.Op))
	case len(c.Value) > MaxValue:
		return test{}, fmt.Errorf("%s: the value has more than %d bytes", c.Feature, MaxValue)
	case strings.TrimSpace(c.Value) == "":
		return test{}, fmt.Errorf("%s: the value is empty", c.Feature)
	}
	t := test{Constraint: c}
	kind := kindOf(c.Feature, strings.TrimSpace(c.Value))
	if c.Op == Contains {
		kind = Text
	}
	v, err := parseValue(kind, c.Value)
	if err != nil {
		return test{}, fmt.Errorf("%s: %w", c.Feature, err)
	}
	if kind == Text && c.Op != Equal && c.Op != Contains {
		return test{}, fmt.Errorf("%s: %q is a text, for which only = and contains are possible", c.Feature, c.Value)
	}
	t.value = v
	return t, nil
}

// limit is an end of the interval of values that satisfy a constraint.
type limit struct {
	test   test
	value  value
	strict bool // the value itself is outside
}

// limits returns the interval of values that satisfy t; nil means no end. Ends for whole
// numbers are never strict.
func (t test) limits() (low, high *limit) {
	whole := t.value.kind == Count || t.value.kind == Size
	end := func(round func(float64) float64, add float64) *limit {
		l := &limit{test: t, value: t.value, strict: add != 0 && !whole}
		if whole {
			l.value.number = round(t.value.number) + add
		}
		return l
	}
	switch t.Op {
	case Less:
		return nil, end(math.Ceil, -1)
	case AtMost:
		return nil, end(math.Floor, 0)
	case Greater:
		return end(math.Floor, 1), nil
	case AtLeast:
		return end(math.Ceil, 0), nil
	}
	return end(math.Ceil, 0), end(math.Floor, 0)
}

// compare compares two values, which must be of one kind. ok is false for texts that differ and for real numbers
// with different units, which have no order.
func compare(a, b value) (order int, ok bool) {
	switch a.kind {
	case Text:
		return 0, sameText(a.text, b.text)
	case Version:
		return CompareVersions(a.text, b.text), true
	}
	switch {
	case a.text != b.text:
		return 0, false
	case a.number < b.number:
		return -1, true
	case a.number > b.number:
		return 1, true
	}
	return 0, true
}

// demand is all constraints on one feature: an interval, and texts that a list must have.
type demand struct {
	feature   string
	kind      Kind
	low, high *limit
	contains  []test
}

// and adds a constraint to d. It returns a *ConflictError if no value satisfies all.
func (d demand) and(t test) (demand, error) {
	if other, ok := d.conflict(t); ok {
		return d, &ConflictError{other, t.Constraint}
	}
	d.kind = t.value.kind
	if t.Op == Contains {
		d.contains = append(slices.Clip(d.contains), t)
		return d, nil
	}
	low, high := t.limits()
	if low != nil && (d.low == nil || stronger(low, d.low, 1)) {
		d.low = low
	}
	if high != nil && (d.high == nil || stronger(high, d.high, -1)) {
		d.high = high
	}
	return d, d.checkInterval(t)
}

// conflict returns a constraint of d that requires a different text, or another kind of value,
// than t.
func (d demand) conflict(t test) (other Constraint, ok bool) {
	if len(d.contains) > 0 && t.value.kind != Text {
		return d.contains[0].Constraint, true
	}
	l := d.anyLimit()
	if l == nil {
		return other, false
	}
	_, comparable := compare(l.value, t.value)
	return l.test.Constraint, d.kind != t.value.kind || t.Op != Contains && !comparable
}

// checkInterval returns a *ConflictError with last, the newest constraint, if the interval of
// d is empty.
func (d demand) checkInterval(last test) error {
	if isWhole := d.kind == Count || d.kind == Size; isWhole && d.high != nil && d.high.value.number < 0 {
		return &ConflictError{d.high.test.Constraint, d.high.test.Constraint}
	}
	if d.low == nil || d.high == nil {
		return nil
	}
	order, _ := compare(d.low.value, d.high.value)
	if order < 0 || order == 0 && !d.low.strict && !d.high.strict {
		return nil
	}
	first, second := d.low.test.Constraint, d.high.test.Constraint
	if second != last.Constraint {
		first, second = second, first
	}
	return &ConflictError{first, second}
}

// anyLimit returns an end of the interval, or nil if it has none.
func (d demand) anyLimit() *limit {
	if d.low != nil {
		return d.low
	}
	return d.high
}

// stronger reports whether the end a excludes more than b; side is 1 for lower ends and -1 for
// upper ends.
func stronger(a, b *limit, side int) bool {
	order, _ := compare(a.value, b.value)
	return order*side > 0 || order == 0 && a.strict && !b.strict
}

// admits reports whether v is in the interval of d. Both must be of one kind.
func (d demand) admits(v value) bool {
	if d.low != nil {
		if order, ok := compare(v, d.low.value); !ok || order < 0 || order == 0 && d.low.strict {
			return false
		}
	}
	if d.high != nil {
		if order, ok := compare(v, d.high.value); !ok || order > 0 || order == 0 && d.high.strict {
			return false
		}
	}
	return true
}

// grant returns the value of c that a node gets: the lowest number, the highest version, or the text that d names. ok is
// false if no value of c satisfies d.
func (d demand) grant(c Capability) (granted value, ok bool) {
	if d.kind != c.Kind {
		return value{}, false
	}
	if c.Kind == Count || c.Kind == Size {
		v := value{kind: c.Kind, number: c.Min}
		if d.low != nil {
			v.number = max(v.number, d.low.value.number)
		}
		return v, v.number <= c.Max && (d.high == nil || v.number <= d.high.value.number)
	}
	for _, t := range d.contains {
		if !slices.ContainsFunc(c.values, func(v value) bool { return sameText(v.text, t.value.text) }) {
			return value{}, false
		}
		granted, ok = t.value, true
	}
	if len(d.contains) > 0 && d.low == nil {
		return granted, ok
	}
	ok = false
	for _, v := range c.values {
		if d.admits(v) {
			if order, comparable := compare(v, granted); !ok || comparable && order > 0 {
				granted, ok = v, true
			}
		}
	}
	return granted, ok
}
