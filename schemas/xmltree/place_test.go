package xmltree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestColumns marks with {} where the error is.
func TestColumns(t *testing.T) {
	for _, tt := range []struct{ rule, in string }{
		{"mismatch", "<a>\n <b>é{}</a>"},
		{"mismatch across lines", "<a>\n <b>é{}</a\n>"},
		{"end of the text", "<a>\n <b>é{}"},
		{"end after a line end", "<a>\n{}"},
		{"undefined entity", "<a>\n\t&x;{}</a>"},
		{"attribute twice", "<a>\n<b x='' x=''{}/></a>"},
		{"bad character", "<a>\n😀{}\x01</a>"},
		{"two roots", "<a/>\n {}<b/>"},
		{"no document", "{}hello"},
		{"first line after a byte order mark", "\xef\xbb\xbf<a><b>{}</a>"},
		{"first line after blanks", " \n  <a><b>{}</a>"},
		{"DOCTYPE", "\n <!-- é --> {}<!DOCTYPE a><a/>"},
		{"declaration inside", "<a>é{}<!ELEMENT b></a>"},
		{"NUL", "<a>\né{}\x00</a>"},
		{"not UTF-8", "<a>\né{}\xe9</a>"},
		{"an encoding", "\n<?xml version='1.0' encoding='{}latin1'?><a/>"},
		{"an element without namespace", "<a>\n é{}<p:b/></a>"},
		{"an attribute without namespace", "<a>\n é{}<b p:b=''/></a>"},
	} {
		before, after, _ := strings.Cut(tt.in, "{}")
		want := placeOf([]byte(before), len(before))
		err := Parse([]byte(before+after), Limits{}, func(*Doc) error { return nil })
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok || (place{syntax.Line, syntax.Column}) != want {
			t.Errorf("%s: got %#v, want %v", tt.rule, err, want)
		}
	}
	for _, tt := range []struct {
		rule, in string
		lim      Limits
	}{
		{"depth", "<a>\n é{}<b/></a>", Limits{Depth: 1}},
		{"elements", "<a>\n é<b/>{}<b/></a>", Limits{Elements: 2}},
		{"comments", "<a>\n é<b/>{}<!-- --></a>", Limits{Elements: 2}},
		{"attributes", "<a>\n é{}<b a='' b=''/></a>", Limits{Attrs: 1}},
		{"namespaces", "\xef\xbb\xbf <a xmlns='u:x'>é{}<b xmlns=''/></a>", Limits{Namespaces: 1}},
	} {
		before, after, _ := strings.Cut(tt.in, "{}")
		want := placeOf([]byte(before), len(before))
		err := Parse([]byte(before+after), tt.lim, func(*Doc) error { return nil })
		limit, ok := errors.AsType[*LimitError](err)
		if !ok || (place{limit.Line, limit.Column}) != want {
			t.Errorf("%s: got %#v, want %v", tt.rule, err, want)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	for _, tt := range []struct {
		before string
		want   place
	}{
		{"", place{1, 1}},
		{"abc", place{1, 4}},
		{"é😀", place{1, 3}},
		{"a\n", place{2, 1}},
		{"a\r\n\tb", place{2, 3}},
		{"\xef\xbb\xbf", place{1, 1}},
		{"\xef\xbb\xbf\n\xef\xbb\xbf", place{2, 2}},
		{"\xff\xfe", place{1, 3}},
	} {
		if got := placeOf([]byte(tt.before+"rest"), len(tt.before)); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.before, got, tt.want)
		}
	}
}

func TestElementsHaveColumns(t *testing.T) {
	in := "\xef\xbb\xbf  <a>é<b\n x='>'/>\t<c>😀<d/>\n\n</c ><e/></a>"
	if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
		var got []string
		for _, e := range d.elements {
			got = append(got, fmt.Sprintf("%s %d:%d", e.Local, e.Line, e.Column))
		}
		if diff := cmp.Diff([]string{"a 1:3", "b 1:7", "c 2:10", "d 2:14", "e 4:6"}, got); diff != "" {
			t.Error(diff)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
