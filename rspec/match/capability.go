package match

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MaxItems is the maximum number of items that ParseItems uses.
const MaxItems = 64

// Capability is what a component, a sliver type or an image offers of one feature.
type Capability struct {
	Kind     Kind
	Min, Max float64 // the range of a Count or a Size, inclusive
	values   []value // of the other kinds: at least one; exactly one of a Real
}

// ParseCapability reads the values of a feature: "8", "64G", "0..2", "BE", or a list.
func ParseCapability(feature string, values ...string) (Capability, error) {
	switch {
	case len(feature) > MaxFeature:
		return Capability{}, fmt.Errorf("the feature %.20q… has more than %d bytes", feature, MaxFeature)
	case !isFeature(feature):
		return Capability{}, fmt.Errorf("%q is not the name of a feature, such as cpu.count", feature)
	case len(values) == 0:
		return Capability{}, fmt.Errorf("%s has no value", feature)
	}
	low, high, isRange := strings.Cut(values[0], "..")
	c := Capability{Kind: kindOf(feature, strings.TrimSpace(low))}
	if isRange {
		c.Kind = kindOf(feature, strings.TrimSpace(high))
	}
	if c.Kind == Count || c.Kind == Size {
		return c.parseRange(feature, values, low, high, isRange)
	}
	for _, s := range values {
		if len(s) > MaxValue || strings.TrimSpace(s) == "" {
			return Capability{}, fmt.Errorf("%s: a value has 1 to %d bytes", feature, MaxValue)
		}
		if kindOf(feature, strings.TrimSpace(s)) != c.Kind {
			c.Kind = Text // such as the list [sensor, 5]
		}
	}
	for _, s := range values {
		v, err := parseValue(c.Kind, s)
		if err != nil {
			return Capability{}, fmt.Errorf("%s: %w", feature, err)
		}
		c.values = append(c.values, v)
	}
	if c.Kind == Real && len(values) > 1 {
		return Capability{}, fmt.Errorf("%s has %d values; give one number", feature, len(values))
	}
	return c, nil
}

// ParseItems reads capabilities as a provider reports them: each item is "feature=value" or
// "feature=min..max", and a feature with several values has an item for each. ParseItems returns
// the capabilities by feature, and the items that it has used, sorted and without duplicates.
// It leaves out malformed items; err describes the first of them.
func ParseItems(items []string) (all map[string]Capability, used []string, err error) {
	all = make(map[string]Capability)
	values := make(map[string][]string)
	for _, item := range slices.Compact(slices.Sorted(slices.Values(items))) {
		feature, value, ok := strings.Cut(item, "=")
		var c Capability
		var wrong error
		switch {
		case !ok:
			wrong = fmt.Errorf("%.80q is not feature=value or feature=min..max", item)
		case len(used) == MaxItems:
			wrong = fmt.Errorf("there are more than %d items", MaxItems)
		case len(value) > MaxValue || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
			wrong = fmt.Errorf("%.80q has control characters, or a value of more than %d bytes", item, MaxValue)
		default:
			c, wrong = ParseCapability(feature, append(values[feature], value)...)
		}
		if wrong != nil {
			if err == nil {
				err = wrong
			}
			continue
		}
		all[feature], values[feature] = c, append(values[feature], value)
		used = append(used, item)
	}
	return all, used, err
}

// parseRange returns c, a Count or a Size, with the range from low to high, or the one number low. values are all values
// of the feature: one is possible.
func (c Capability) parseRange(feature string, values []string, low, high string, isRange bool) (Capability, error) {
	if len(values) > 1 {
		return c, fmt.Errorf("%s has %d values; give one number, or a range such as 0..2", feature, len(values))
	}
	if !isRange {
		high = low
	}
	if c.Kind == Size && isRange && !hasUnit(low) && hasUnit(high) && strings.Trim(low, "0 ") != "" {
		return c, fmt.Errorf("%s: %s has a unit at one end only", feature, values[0])
	}
	for _, end := range []struct {
		text string
		to   *float64
	}{{low, &c.Min}, {high, &c.Max}} {
		v, err := parseValue(c.Kind, end.text)
		if err != nil {
			return c, fmt.Errorf("%s: %w", feature, err)
		}
		if c.Kind == Count && v.number != float64(int64(v.number)) {
			return c, fmt.Errorf("%s: %s is not a whole number", feature, end.text)
		}
		*end.to = v.number
	}
	if c.Min > c.Max {
		return c, fmt.Errorf("%s: %s is above %s", feature, low, high)
	}
	return c, nil
}

func hasUnit(size string) bool { return strings.ContainsAny(size, "BKMGTPEbkmgtpe") }

// Ends returns the ends of a range as text.
func (c Capability) Ends() (low, high string) {
	return value{kind: c.Kind, number: c.Min}.String(), value{kind: c.Kind, number: c.Max}.String()
}

// Values returns the values of c as text: the ends of a range, or each value.
func (c Capability) Values() []string {
	if c.Kind == Count || c.Kind == Size {
		low, high := c.Ends()
		if low == high {
			return []string{low}
		}
		return []string{low + ".." + high}
	}
	var all []string
	for _, v := range c.values {
		all = append(all, v.String())
	}
	return all
}

// String formats c as ParseCapability reads it.
func (c Capability) String() string { return strings.Join(c.Values(), ", ") }
