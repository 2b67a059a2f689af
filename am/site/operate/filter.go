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
	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/am/urn"
)

// Filter selects rows of a list. Its patterns are names or URNs with * for any text and
// ? for one character, separated by commas; an empty pattern selects all. Components
// may be ranges such as pc1..pc4, and a sliver may be named as SLICE/CLIENT_ID.
type Filter struct {
	Slice, Sliver, User, Component, Provider string
	// State is the State of slivers or nodes, the event of journal entries, or the goal
	// of tasks.
	State string
	// Shutdown selects slices that were shut down, and their slivers.
	Shutdown bool
	// Since and Until select entries by their time, and records by the time of their
	// creation; Until is excluded. Zero means no limit.
	Since, Until time.Time
	// EndsBefore selects leases that end before a time; zero selects all.
	EndsBefore time.Time
	// Limit is the largest number of rows; the journal lists its latest entries. 0 means
	// all.
	Limit int
}

const (
	maxPattern = 1024 // bytes
	maxLimit   = 1 << 31
)

// Query returns the filter as the query of a URL.
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

// ParseFilter parses the query of a URL. It fails with a *RefusedError.
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
				return f, malformed("%s is %.40q; write a time like 2030-01-31T12:00:00Z", key, value)
			}
		case key == "shutdown":
			if f.Shutdown, err = strconv.ParseBool(value); err != nil {
				return f, malformed("shutdown is %.40q; write true or false", value)
			}
		case key == "limit":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || n > maxLimit {
				return f, malformed("limit is %.40q; write a number of rows", value)
			}
			f.Limit = int(n)
		default:
			return f, malformed("there is no key %.40q%s", key, didYouMean(key, slices.Concat(slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(times)), []string{"shutdown", "limit"})))
		}
	}
	return f, nil
}

// maxSuggested limits the length of a word for which a similar word is suggested.
const maxSuggested = 100

// didYouMean returns the end of an error text, which suggests the known word that is most similar to word. It
// returns "" if none is similar, or if word is long.
func didYouMean(word string, known []string) string {
	if len(word) > maxSuggested {
		return ""
	}
	if near := display.Suggest(word, known); near != "" && near != word {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// patterns match a row if one of the patterns matches.
type patterns []pattern

// newPatterns parses a URN, or patterns separated by commas.
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

const maxRange = 1000

// newComponents parses patterns of components, including ranges such as pc1..pc4.
func newComponents(text string) (all patterns) {
	for _, p := range newPatterns(text) {
		names, err := maintenance.Spread(p.original, maxRange)
		if err != nil || p.hasWildcard || p.isURN {
			all = append(all, p)
			continue
		}
		for _, name := range names {
			one := newPattern(name)
			if len(names) > 1 {
				one.inRange = p.original
			}
			all = append(all, one)
		}
	}
	return all
}

// newSlices parses patterns of slices, including SLICE/CLIENT_ID.
func newSlices(text string) (all patterns) {
	for _, p := range newPatterns(text) {
		if slice, node, one := strings.Cut(p.original, "/"); one && !p.isURN {
			clientID := newPattern(node)
			p = newPattern(slice)
			p.node = &clientID
		}
		all = append(all, p)
	}
	return all
}

func (a patterns) matchSliver(x *am.Sliver) bool {
	return slices.ContainsFunc(a, func(p pattern) bool {
		return p.matchesURN(x.Slice) && (p.node == nil || p.node.matchesName(x.ClientID))
	})
}

// selectSlivers reports whether a pattern selects single slivers of a slice.
func (a patterns) selectSlivers() bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.node != nil })
}

// matchAll reports whether the patterns match every row. An empty list does.
func (a patterns) matchAll() bool {
	return len(a) == 0 || slices.ContainsFunc(a, pattern.matchesAll)
}

func (a patterns) matchName(s string) bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.matchesName(s) })
}

func (a patterns) matchURN(u urn.URN) bool {
	return slices.ContainsFunc(a, func(p pattern) bool { return p.matchesURN(u) })
}

type pattern struct {
	original    string
	inRange     string // the range that it comes from; "" for none
	text        string
	node        *pattern // the pattern for the client_id of slivers; nil for all slivers
	isURN       bool     // the pattern is compared with the URN, not with the name
	hasWildcard bool
}

// newPattern ignores case.
func newPattern(text string) pattern {
	return pattern{original: text, text: strings.ToLower(text), isURN: strings.HasPrefix(strings.ToLower(text), "urn:"), hasWildcard: strings.ContainsAny(text, "*?")}
}

func (p pattern) matchesAll() bool { return p.node == nil && (p.text == "" || p.text == "*") }

func (p pattern) matchesName(s string) bool {
	s = strings.ToLower(s)
	return p.text == "" || p.text == s || p.hasWildcard && matches(p.text, s)
}

// matchesURN reports whether the pattern matches a URN, or the name in it.
func (p pattern) matchesURN(u urn.URN) bool {
	if p.isURN {
		return p.matchesName(u.String())
	}
	return p.matchesName(u.Name)
}

// matches reports whether s matches a pattern with * and ?. Its time is at most the
// product of both lengths.
func matches(pattern, s string) bool {
	p, i := 0, 0        // pattern[:p] matches s[:i]
	star, mark := -1, 0 // the last * in pattern[:p], which stands for the text before s[mark:]
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
