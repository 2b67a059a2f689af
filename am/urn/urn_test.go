package urn

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"slice", "urn:publicid:IDN+example.org:proj+slice+s1", "urn:publicid:IDN+example.org:proj+slice+s1"},
		{"prefix in any case", "URN:PublicID:idn+example.org+user+bob", "urn:publicid:IDN+example.org+user+bob"},
		{"name with plus", "urn:publicid:IDN+a+image+x+y", "urn:publicid:IDN+a+image+x+y"},
		{"gcf authority", "urn:publicid:IDN+geni:gpo:gcf+user+alice", "urn:publicid:IDN+geni:gpo:gcf+user+alice"},
		{"underscore and dot in a name", "urn:publicid:IDN+a+slice+_x.y", "urn:publicid:IDN+a+slice+_x.y"},
		{"empty", "", ""},
		{"no IDN", "urn:publicid:geni:gpo:gcf+authority+am", ""},
		{"three parts", "urn:publicid:IDN+a+slice", ""},
		{"empty name", "urn:publicid:IDN+a+slice+", ""},
		{"empty authority", "urn:publicid:IDN++slice+x", ""},
		{"empty sub-authority", "urn:publicid:IDN+a:+slice+x", ""},
		{"upper-case type", "urn:publicid:IDN+a+Slice+x", ""},
		{"blank", "urn:publicid:IDN+a+slice+x y", ""},
		{"trailing line end", "urn:publicid:IDN+a+slice+x\n", ""},
		{"non-ASCII", "urn:publicid:IDN+a+slice+é", ""},
		{"encoded NUL", "urn:publicid:IDN+a+slice+x%00y", ""},
		{"too long", "urn:publicid:IDN+a+slice+" + strings.Repeat("x", 255), ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			u, err := Parse(tt.in)
			if (err == nil) != (tt.want != "") || u.String() != tt.want {
				t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, u, err, tt.want)
			}
		})
	}
}

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		rule, a, b string
		want       bool
	}{
		{"authority ignores case", "urn:publicid:IDN+Example.org+node+n", "urn:publicid:IDN+example.ORG+node+n", true},
		{"slice names ignore case", "urn:publicid:IDN+a+slice+S", "urn:publicid:IDN+a+slice+s", true},
		{"project names ignore case", "urn:publicid:IDN+a+project+P", "urn:publicid:IDN+a+project+p", true},
		{"node names do not", "urn:publicid:IDN+a+node+N", "urn:publicid:IDN+a+node+n", false},
		{"percent-encoding is never decoded", "urn:publicid:IDN+a+slice+%73lice", "urn:publicid:IDN+a+slice+slice", false},
		{"type is exact", "urn:publicid:IDN+a+slice+x", "urn:publicid:IDN+a+sliver+x", false},
	} {
		if got := MustParse(tt.a).Equal(MustParse(tt.b)); got != tt.want {
			t.Errorf("%s: Equal(%s, %s) = %v", tt.rule, tt.a, tt.b, got)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		parent, child string
		want          bool
	}{
		{"example.org", "example.org", true},
		{"example.org", "EXAMPLE.org:proj", true},
		{"example.org:a", "example.org:ab", false},
		{"example.org", "example.org.evil", false},
		{"example.org", "xexample.org", false},
		{"example.org:proj", "example.org", false},
		{"", "example.org", false},
	} {
		if got := Covers(tt.parent, tt.child); got != tt.want {
			t.Errorf("Covers(%q, %q) = %v", tt.parent, tt.child, got)
		}
	}
}

func TestSameManager(t *testing.T) {
	cm, am := MustParse("urn:publicid:IDN+example.org+authority+cm"), MustParse("urn:publicid:IDN+Example.org+authority+am")
	if !SameManager(cm, am) {
		t.Error("cm and am of one authority are not the same manager")
	}
	if SameManager(cm, MustParse("urn:publicid:IDN+example.org+authority+sa")) || SameManager(cm, MustParse("urn:publicid:IDN+example.org:x+authority+cm")) {
		t.Error("another authority is the same manager")
	}
}

func TestTranscribe(t *testing.T) {
	for in, want := range map[string]string{
		"  a   b ":    "a+b",
		"a//b::c":     "a:b;c",
		"x+y:z/?#%'":  "x%2By%3Az%2F%3F%23%25%27",
		"plain-1.0_x": "plain-1.0_x",
	} {
		if got := Transcribe(in); got != want {
			t.Errorf("Transcribe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("urn:publicid:IDN+example.org+slice+s")
	f.Add("URN:PUBLICID:IDN+a:b+node+x+y")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Parse(s)
		if err != nil {
			return
		}
		v, err := Parse(u.String())
		if err != nil || v != u || !u.Equal(v) || u.Key() != v.Key() {
			t.Fatalf("%q: printed %q, read back %v, %v", s, u, v, err)
		}
	})
}
