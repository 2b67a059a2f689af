package policy

import (
	"strings"
	"testing"

	"patchbay/am/urn"
)

func TestPatternsFitByComponents(t *testing.T) {
	for _, tt := range []struct {
		rule, pattern, user string
		want                bool
	}{
		{"the name itself", "example.net+user+alice", "example.net+user+alice", true},
		{"the whole URN", "urn:publicid:IDN+example.net+user+alice", "example.net+user+alice", true},
		{"case does not matter", "Example.NET+user+Alice", "eXample.net+user+aLICE", true},
		{"not a longer authority", "example.net+user+*", "example.net.evil+user+alice", false},
		{"not a shorter authority", "example.net+user+*", "example.ne+user+alice", false},
		{"a dot is a dot", "example.net+user+*", "examplexnet+user+alice", false},
		{"not a sub-authority", "example.net+user+*", "example.net:a+user+alice", false},
		{"not a longer component", "example.net:a+user+*", "example.net:ab+user+alice", false},
		{"not the authority above", "example.net:a+user+*", "example.net+user+alice", false},
		{"a star in a component", "example.net:course-*+user+*", "example.net:course-net+user+alice", true},
		{"a star for nothing", "example.net:course-*+user+*", "example.net:course-+user+alice", true},
		{"a star does not pass a colon", "example.net:course-*+user+*", "example.net:course-a:b+user+alice", false},
		{"a star is one component", "example.net:*+user+*", "example.net+user+alice", false},
		{"two stars in a component", "example.net:*-net-*+user+*", "example.net:a-net-net-b+user+alice", true},
		{"a star goes back", "example.net:*ab+user+*", "example.net:aabab+user+alice", true},
		{"two stars are what is below", "example.net:**+user+*", "example.net:a:b+user+alice", true},
		{"and the authority itself", "example.net:**+user+*", "example.net+user+alice", true},
		{"but not beside it", "example.net:**+user+*", "example.net.evil:a+user+alice", false},
		{"two stars below a component", "example.net:a:**+user+*", "example.net:ab:c+user+alice", false},
		{"everybody", "**+user+*", "example.net:a+user+alice", true},
		{"part of a name", "example.net+user+a*e", "example.net+user+alice", true},
		{"not another name", "example.net+user+a*e", "example.net+user+anna", false},
		{"a name with a plus sign", "example.net+user+a+*", "example.net+user+a+b", true},
		{"a tool is no user", "**+user+*", "example.net+tool+alice", false},
		{"an authority is no user", "**+user+*", "example.net+authority+sa", false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p, err := parseUsers(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			rules := Rules{list: []*Rule{{who: []pattern{p}}}}
			if got := rules.find(urn.MustParse("urn:publicid:IDN+"+tt.user), urn.URN{}) != nil; got != tt.want {
				t.Errorf("%s fits %s: %v, want %v", tt.pattern, tt.user, got, tt.want)
			}
		})
	}
}

func TestPatternsFitProjects(t *testing.T) {
	for _, tt := range []struct {
		rule, pattern, slice string
		want                 bool
	}{
		{"the project", "example.org:net", "example.org:net+slice+a", true},
		{"not the authority above", "example.org:net", "example.org+slice+a", false},
		{"nor below", "example.org:net", "example.org:net:b+slice+a", false},
		{"nor beside", "example.org:net", "example.org:network+slice+a", false},
		{"all projects", "example.org:*", "example.org:net+slice+a", true},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p, err := parseProjects(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			rules := Rules{list: []*Rule{{projects: []pattern{p}}}}
			slice := urn.MustParse("urn:publicid:IDN+" + tt.slice)
			if got := rules.find(urn.URN{}, slice) != nil; got != tt.want {
				t.Errorf("%s fits %s: %v, want %v", tt.pattern, tt.slice, got, tt.want)
			}
		})
	}
}

func TestPatternsThatMatchNoUserAreMistakes(t *testing.T) {
	for _, tt := range []struct{ rule, pattern, want string }{
		{"no user", "example.org", "write AUTHORITY+user+NAME"},
		{"no name", "example.org+user+", "has no name"},
		{"a slice", "example.org+slice+a", `names of type "slice"`},
		{"an empty component", "example.org:+user+a", "empty part between colons"},
		{"no authority", "+user+a", "empty part between colons"},
		{"two stars in between", "a:**:b+user+*", "** stands only for all further parts"},
		{"two stars in a component", "a:b**+user+*", "** stands only for all further parts"},
		{"a blank", "example.org+user+a b", "has a blank"},
		{"a character no authority has", "exam/ple.org+user+a", `the character '/'`},
		{"a component that begins with a dot", "example.org:.a+user+*", `begins with "."`},
		{"too long", strings.Repeat("a", 300) + "+user+a", "longer than 255"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if _, err := parseUsers(tt.pattern); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := parseProjects("example.org:net+slice+a"); err == nil || !strings.Contains(err.Error(), "drop") {
		t.Errorf("a slice for a project: %v", err)
	}
}

func TestPatternsThatCoverOthers(t *testing.T) {
	for _, tt := range []struct {
		outer, inner string
		want         bool
	}{
		{"a:**+user+*", "a:b+user+c", true},
		{"a:**+user+*", "a:b:**+user+*", true},
		{"a:*+user+*", "a:b*+user+c*", true},
		{"a:*+user+*", "a:**+user+*", false},
		{"a:*+user+*", "a+user+*", false},
		{"a:b*+user+*", "a:*+user+*", false},
		{"a:b+user+c", "a:b+user+*", false},
		{"a+user+*", "a.b+user+*", false},
		{"**+user+*", "**+user+*", true},
	} {
		outer, err1 := parseUsers(tt.outer)
		inner, err2 := parseUsers(tt.inner)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := outer.covers(&inner); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.outer, tt.inner, got)
		}
	}
}

// FuzzPatterns compares the matcher with a slow and simple one, and the results of covers and
// mayMatch with the matcher.
func FuzzPatterns(f *testing.F) {
	for _, s := range [][4]string{
		{"example.net:a*b+user+*", "example.net:axb", "alice", "example.net:**+user+a*"},
		{"**+user+a**b", "x:y:z", "acb", "x:*:z+user+*"},
		{"a:*:**+user+u", "a:b", "u", "a:b+user+u"},
		{"example.net+user+*", "example.net.evil", "alice", "example.net+user+x"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, pattern, authority, name, other string) {
		p, err := parseUsers(pattern)
		if err != nil || len(authority) > maxPattern || len(name) > maxPattern {
			return
		}
		if _, err := parseUsers(p.String()); err != nil {
			t.Fatalf("%q is a pattern, as printed it is not: %v", pattern, err)
		}
		if !urn.ValidAuthority(authority) || name == "" {
			return
		}
		who := nameOf(authority, name)
		got := p.covers(&who)
		labels := strings.Split(lower(authority), ":")
		want := len(labels) == len(p.labels) || p.deeper && len(labels) > len(p.labels)
		for i := 0; want && i < len(p.labels); i++ {
			want = slowGlob(p.labels[i], labels[i], map[[2]int]bool{})
		}
		if want = want && slowGlob(p.name, lower(name), map[[2]int]bool{}); got != want {
			t.Fatalf("%q fits %q %q: %v, want %v", pattern, authority, name, got, want)
		}
		if got && !p.mayMatch(authority) {
			t.Fatalf("%q fits %q, but does not meet it", pattern, authority)
		}
		if q, err := parseUsers(other); err == nil && q.covers(&p) && got && !q.covers(&who) {
			t.Fatalf("%q covers %q, but does not fit %q %q", other, pattern, authority, name)
		}
	})
}

// slowGlob tries every way to read the stars; been are those that were tried.
func slowGlob(pattern, text string, been map[[2]int]bool) bool {
	at := [2]int{len(pattern), len(text)}
	if been[at] {
		return false // or it would have ended
	}
	been[at] = true
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return slowGlob(pattern[1:], text, been) || text != "" && slowGlob(pattern, text[1:], been)
	}
	return text != "" && pattern[0] == text[0] && slowGlob(pattern[1:], text[1:], been)
}
