package operate

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/urn"
	"patchbay/inventory/suggest"
)

// Filter says which rows of a list are wanted. Its patterns are names or URNs,
// in which * stands for any text and ? for one character, several with commas between;
// an empty one lets all through. Components may be ranges such as pc1..pc4, and of a
// slice one sliver may be meant, as SLICE/CLIENT_ID.
type Filter struct {
	Slice, Sliver, User, Component, Provider string
	// State is the State of rows: of slivers, of nodes; the event of entries of
	// the journal, the goal of tasks.
	State string
	// Shutdown wants slices that were shut down, and their slivers.
	Shutdown bool
	// Since and Until bound when an entry was written, or a record made; Until is
	// not included. Zero for no bound.
	Since, Until time.Time
	// EndsBefore wants leases that end before a time; zero for all.
	EndsBefore time.Time
	// Limit is how many rows are wanted at most, the latest of the journal; 0 for
	// all.
	Limit int
}

// Bounds of a question.
const (
	maxPattern = 1024 // bytes
	maxLimit   = 1 << 31
)

// Query is the filter as a part of a URL.
func (f Filter) Query() url.Values {
	q := url.Values{}
	for key, text := range f.texts() {
		if *text != "" {
			q.Set(key, *text)
		}
	}
	for key, at := range f.times() {
		if !at.IsZero() {
			q.Set(key, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Shutdown {
		q.Set("shutdown", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

func (f *Filter) texts() map[string]*string {
	return map[string]*string{
		"slice": &f.Slice, "sliver": &f.Sliver, "user": &f.User, "component": &f.Component, "provider": &f.Provider, "state": &f.State,
	}
}

func (f *Filter) times() map[string]*time.Time {
	return map[string]*time.Time{"since": &f.Since, "until": &f.Until, "ends_before": &f.EndsBefore}
}

// ParseFilter reads what Query wrote, or somebody by hand. The error is a
// *RefusedError.
func ParseFilter(q url.Values) (f Filter, err error) {
	texts, times := f.texts(), f.times()
	for key, values := range q {
		value := values[0]
		switch {
		case len(value) > maxPattern:
			return f, malformed("%.40q is longer than %d bytes", key, maxPattern)
		case texts[key] != nil:
			*texts[key] = value
		case times[key] != nil:
			if *times[key], err = time.Parse(time.RFC3339, value); err != nil {
				return f, malformed("%s is %.40q, which is no time like 2030-01-31T12:00:00Z", key, value)
			}
		case key == "shutdown":
			if f.Shutdown, err = strconv.ParseBool(value); err != nil {
				return f, malformed("shutdown is %.40q; it is true or false", value)
			}
		case key == "limit":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || n > maxLimit {
				return f, malformed("limit is %.40q; it is a number of rows", value)
			}
			f.Limit = int(n)
		default:
			return f, malformed("nothing is called %.40q%s", key, didYouMean(key, slices.Concat(slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(times)), []string{"shutdown", "limit"})))
		}
	}
	return f, nil
}

// maxHinted is how long a word may be for which a near one is looked for.
const maxHinted = 100

func didYouMean(word string, have []string) string {
	if len(word) > maxHinted {
		return ""
	}
	if near := suggest.Word(word, have); near != "" && near != word {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// patterns are what an operator typed, with commas between; each alone may be meant.
type patterns []pattern

func newPatterns(text string) (all patterns) {
	if strings.HasPrefix(strings.ToLower(text), "urn:") {
		return patterns{newPattern(text)}
	}
	for _, one := range strings.Split(text, ",") {
		if one != "" {
			all = append(all, newPattern(one))
		}
	}
	return all
}

// maxRange is how many components a range may name in a question.
const maxRange = 1000

// newComponents reads ranges such as pc1..pc4, too.
func newComponents(text string) (all patterns) {
	for _, p := range newPatterns(text) {
		names, err := maintenance.Spread(p.said, maxRange)
		if err != nil || p.glob || p.whole {
			all = append(all, p)
			continue
		}
		for _, name := range names {
			one := newPattern(name)
			if len(names) > 1 {
				one.within = p.said
			}
			all = append(all, one)
		}
	}
	return all
}

// newSlices reads SLICE/CLIENT_ID, too.
func newSlices(text string) (all patterns) {
	for _, p := range newPatterns(text) {
		if slice, node, one := strings.Cut(p.said, "/"); one && !p.whole {
			of := newPattern(node)
			p = newPattern(slice)
			p.node = &of
		}
		all = append(all, p)
	}
	return all
}

// sliver tells whether a sliver of these slices is meant.
func (a patterns) sliver(x *am.Sliver) bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.urn(x.Slice) && (p.node == nil || p.node.name(x.ClientID)) })
}

// perSliver tells whether only some slivers of slices are meant.
func (a patterns) perSliver() bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.node != nil })
}

// all tells whether everything is let through.
func (a patterns) all() bool {
	return len(a) == 0 || slices.ContainsFunc(a, pattern.all)
}

// name tells whether a plain name is meant.
func (a patterns) name(s string) bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.name(s) })
}

// urn tells whether a URN is meant, by itself or its name.
func (a patterns) urn(u urn.URN) bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.urn(u) })
}

// pattern is one of them.
type pattern struct {
	said   string
	within string // the range that it is of
	text   string
	node   *pattern // of the client_id of slivers; nil for all of them
	whole  bool     // of the URN, not of the name
	glob   bool
}

func newPattern(text string) pattern {
	return pattern{said: text, text: strings.ToLower(text), whole: strings.HasPrefix(strings.ToLower(text), "urn:"), glob: strings.ContainsAny(text, "*?")}
}

// all tells whether the pattern lets everything through.
func (p pattern) all() bool { return p.node == nil && (p.text == "" || p.text == "*") }

// name tells whether a plain name is meant.
func (p pattern) name(s string) bool {
	s = strings.ToLower(s)
	return p.text == "" || p.text == s || p.glob && matches(p.text, s)
}

// urn tells whether a URN is meant, by itself or its name.
func (p pattern) urn(u urn.URN) bool {
	if p.whole {
		return p.name(u.String())
	}
	return p.name(u.Name)
}

// matches tells whether s is like a pattern with * and ?. It looks at each byte
// of s once for each byte of the pattern, at most.
func matches(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
