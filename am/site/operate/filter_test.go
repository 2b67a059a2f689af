package operate

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMatchesModel compares patterns with regular expressions.
func TestMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab*?")), 0, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 10, -1).Draw(t, "text")
		re := "^" + strings.NewReplacer("*", ".*", "?", ".").Replace(pattern) + "$"
		want := regexp.MustCompile(re).MatchString(s)
		if got := matches(pattern, s); got != want {
			t.Errorf("%q like %q: %v", s, pattern, got)
		}
	})
}

// The cost of a pattern with many stars is linear in its length.
func TestPatternsCannotCostMuch(t *testing.T) {
	p := newPattern(strings.Repeat("*a", maxPattern/2-1) + "b")
	done := make(chan bool)
	go func() { done <- p.matchesName(strings.Repeat("a", 100_000)) }()
	select {
	case got := <-done:
		if got {
			t.Error("it is not like that")
		}
	case <-time.After(time.Minute):
		t.Fatal("it takes too long")
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add("slice=exp&limit=3&since=2030-01-01T00:00:00Z&shutdown=true")
	f.Add("user=%2a&until=x")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		a, err := ParseFilter(q)
		if err != nil {
			return
		}
		b, err := ParseFilter(a.Query())
		if err != nil || a.Query().Encode() != b.Query().Encode() {
			t.Errorf("%q: %+v, again %+v, %v", text, a, b, err)
		}
		for _, word := range []string{a.Slice, a.User} {
			p := newPattern(word)
			if !p.hasWildcard && word != "" && !p.matchesName(word) {
				t.Errorf("%q is not itself", word)
			}
			if ok, err := path.Match(p.text, "exp"); err == nil && ok && p.hasWildcard && !strings.ContainsAny(p.text, `[\`) && !p.matchesName("exp") {
				t.Errorf("%q does not match", word)
			}
		}
	})
}
