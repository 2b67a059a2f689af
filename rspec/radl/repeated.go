package radl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec/match"
)

// checkFeatures checks the features of one sentence or group. It returns them without repetitions:
// of each name there is one text or list, or an interval of numbers or versions of at most two
// features, or one "contains" for each application.
func (p *parser) checkFeatures(list []Feature, rules map[string]featureRule) (merged []Feature) {
	type key struct{ feature, application string }
	var order []key
	byKey := map[key][]Feature{}
	first := map[string]*Feature{}
	for i := range list {
		f := &list[i]
		kind, ok := p.checkFeature(f, rules)
		if !ok {
			continue
		}
		if was := first[f.Name]; was == nil {
			first[f.Name] = f
		} else if was.Value.Kind != f.Value.Kind {
			p.wrong(f.Place, "leave one of them out", "%.80s is %.40q, but of another kind in line %d", f.Name, f.Value.String(), was.Line)
			continue
		}
		k := key{feature: f.Name}
		if f.Value.Kind == Group {
			k.application = applicationName(f)
		}
		have, again := byKey[k]
		if !again {
			order = append(order, k)
		}
		byKey[k] = p.addRepeated(have, f, kind)
	}
	for _, k := range order {
		for _, f := range byKey[k] {
			if f.Value.Kind == Group {
				groupRules := applicationRules
				if _, known := rules[ruleName(f.Name)]; !known {
					groupRules = nil
				}
				f.Value.Group = p.checkFeatures(f.Value.Group, groupRules)
			}
			merged = append(merged, f)
		}
	}
	return merged
}

// applicationName returns the name of what "contains" names.
func applicationName(f *Feature) string {
	for i := range f.Value.Group {
		if g := &f.Value.Group[i]; g.Name == "name" {
			return g.Value.Text
		}
	}
	return ""
}

// checkFeature checks a feature by itself.
func (p *parser) checkFeature(f *Feature, rules map[string]featureRule) (kind ruleKind, ok bool) {
	f.Name = strings.Replace(f.Name, ".os.flavor", ".os.flavour", 1)
	rule, known := rules[ruleName(f.Name)]
	switch {
	case len(f.Name) > maxFeatureName || hasJSONSuffix(f.Name):
		p.wrong(f.Place, fmt.Sprintf("use at most %d bytes, and no name that ends with _min, _max, _above or _below", maxFeatureName), "there is a feature %.40q", f.Name)
		return 0, false
	case known:
		return rule.kind, p.checkValue(f, rule)
	}
	p.checkUnknown(f, rules)
	switch {
	case (f.Value.Kind == Text || f.Value.Kind == List) && f.Op != Equal:
		p.wrong(f.Place, "write =", "%.80s: a text is compared with %s", f.Name, f.Op)
		return 0, false
	case f.Value.Kind == Number:
		if _, ok := amount(f.Value); !ok || slices.Contains(performanceUnits, f.Value.Unit) {
			p.wrong(f.Place, "write another value, or a text in quotes", "%.80s: the number %.40q is too large, or has a unit of another feature", f.Name, f.Value.String())
			return 0, false
		}
	}
	return anyText, true
}

// addRepeated returns the features of one name, have, with f added: groups are joined, numbers and versions become an
// interval, and other values must be equal.
func (p *parser) addRepeated(have []Feature, f *Feature, kind ruleKind) []Feature {
	if len(have) == 0 {
		return []Feature{*f}
	}
	was := &have[0]
	switch {
	case f.Value.Kind == Group:
		was.Value.Group = append(was.Value.Group, f.Value.Group...)
		return have
	case f.Value.Kind == Number, kind == version && f.Value.Text != "" && was.Value.Text != "":
		return p.intersect(have, f, kind)
	case f.Value.Text != was.Value.Text || !slices.Equal(f.Value.List, was.Value.List):
		p.wrong(f.Place, "leave one of them out", "%.80s is %.40q, but %.40q in line %d", f.Name, f.Value.String(), was.Value.String(), was.Line)
	}
	return have
}

// intersect adds a feature to an interval, which has one feature, or a lower and an upper bound.
func (p *parser) intersect(have []Feature, f *Feature, kind ruleKind) []Feature {
	for i := range have {
		if was := &have[i]; excludes(was, f, kind) || excludes(f, was, kind) {
			p.wrong(f.Place, "change one of them", "no value satisfies both %.80s, in line %d, and %.80s", was, was.Line, f)
			return have
		}
	}
	low, high := tightest(have, f, isLower, 1), tightest(have, f, isUpper, -1)
	switch {
	case low == nil:
		return []Feature{*high}
	case high == nil || low.Op == Equal:
		return []Feature{*low}
	case high.Op == Equal:
		return []Feature{*high}
	}
	if order, _ := compareValues(low.Value, high.Value); order == 0 {
		point := *low
		point.Op = Equal
		return []Feature{point}
	}
	return []Feature{*low, *high}
}

// String returns the feature for messages.
func (f *Feature) String() string { return f.Name + " " + f.Op + " " + f.Value.String() }

func isLower(f *Feature) bool { return f.Op == Equal || f.Op == AtLeast || f.Op == Greater }
func isUpper(f *Feature) bool { return f.Op == Equal || f.Op == AtMost || f.Op == Less }

// excludes reports whether no value is above low and below high. Values that have no order exclude each other.
func excludes(low, high *Feature, kind ruleKind) bool {
	order, ok := compareValues(low.Value, high.Value)
	if !ok {
		return true
	}
	if !isLower(low) || !isUpper(high) {
		return false
	}
	if kind == count && low.Op == Greater && high.Op == Less {
		a, _ := amount(low.Value)
		b, _ := amount(high.Value)
		return b-a <= 1 // there is no whole number between them
	}
	return order > 0 || order == 0 && (low.Op == Greater || high.Op == Less)
}

// tightest returns the bound that excludes most: of the features for which isBound is true, the one with the largest
// value, or with the sign -1 the smallest. Of equal values it returns an equality or a strict bound; nil if there is
// no bound.
func tightest(have []Feature, f *Feature, isBound func(*Feature) bool, sign int) (best *Feature) {
	for _, x := range append(slices.Clip(have), *f) {
		if !isBound(&x) {
			continue
		}
		if best == nil {
			best = &x
			continue
		}
		order, _ := compareValues(x.Value, best.Value)
		if order *= sign; order > 0 || order == 0 && (x.Op == Equal || best.Op != Equal && (x.Op == Less || x.Op == Greater)) {
			best = &x
		}
	}
	return best
}

// compareValues compares numbers or versions. Numbers with different units of performance have no
// order.
func compareValues(a, b Value) (order int, ok bool) {
	if a.Kind == Text {
		return match.CompareVersions(a.Text, b.Text), true
	}
	x, _ := amount(a)
	y, _ := amount(b)
	isSize := func(unit string) bool { return unit == "" || isSizeUnit(unit) }
	return cmp.Compare(x, y), a.Unit == b.Unit || isSize(a.Unit) && isSize(b.Unit)
}

// amount returns a number, sizes in bytes; ok is false if it is too large.
func amount(v Value) (n float64, ok bool) {
	if v.Unit != "" && isSizeUnit(v.Unit) {
		size, err := match.SizeOf(v.Number + v.Unit)
		return float64(size), err == nil
	}
	n, err := strconv.ParseFloat(v.Number, 64)
	return n, err == nil
}
