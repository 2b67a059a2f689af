package xmltree

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"patchbay/am/testkit/require"
)

func find(e *Element, local string) *Element {
	if e.Local == local {
		return e
	}
	for _, c := range e.Elements() {
		if f := find(c, local); f != nil {
			return f
		}
	}
	return nil
}

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		method  Method
		in      string
		of, cut string
		want    string
	}{
		{"empty element gets an end tag", C14N10, `<a />`, "a", "", `<a></a>`},
		{"declaration, comments and blanks in tags go", C14N10, "<?xml version='1.0'?><!-- c --><a  x = '1' ><!-- c -->t</a >", "a", "", `<a x="1">t</a>`},
		{"processing instructions stay", C14N10, "<a><?p  d ?></a>", "a", "", "<a><?p d ?></a>"},
		{"CDATA becomes text", C14N10, "<a><![CDATA[<&>]]></a>", "a", "", "<a>&lt;&amp;&gt;</a>"},
		{"attributes are sorted by namespace and name", C14N10, `<a z="" b:a="" xmlns:b="u:u" a=""/>`, "a", "", `<a xmlns:b="u:u" a="" z="" b:a=""></a>`},
		{"characters in attributes", C14N10, `<a x="&#9;&#10;&#13;&lt;&gt;&quot;'"/>`, "a", "", `<a x="&#x9;&#xA;&#xD;&lt;>&quot;'"></a>`},
		{"carriage return in text", C14N10, "<a>1\r\n2&#13;</a>", "a", "", "<a>1\n2&#xD;</a>"},
		{"non-ASCII is UTF-8", C14N10, "<a>&#233;</a>", "a", "", "<a>é</a>"},
		{"namespaces are inherited", C14N10, `<a xmlns="u:u" xmlns:p="u:v"><b/></a>`, "b", "", `<b xmlns="u:u" xmlns:p="u:v"></b>`},
		{"a repeated declaration is shown once", C14N10, `<a xmlns="u:u"><b xmlns="u:u"><c xmlns="u:u"/></b></a>`, "b", "", `<b xmlns="u:u"><c></c></b>`},
		{"an undeclared default", C14N10, `<a xmlns="u:u"><b xmlns=""/></a>`, "b", "", `<b></b>`},
		{"xml attributes are inherited", C14N10, `<a xml:lang="de" xml:id="i"><b/></a>`, "b", "", `<b xml:id="i" xml:lang="de"></b>`},
		{"xml:id is not inherited by 1.1", C14N11, `<a xml:lang="de" xml:id="i"><b/></a>`, "b", "", `<b xml:lang="de"></b>`},
		{"exclusive shows what is used", ExclusiveC14N10, `<a xmlns="u:u" xmlns:p="u:v" xml:lang="de"><b p:x=""><c/></b></a>`, "b", "", `<b xmlns="u:u" xmlns:p="u:v" p:x=""><c></c></b>`},
		{"exclusive leaves the rest", ExclusiveC14N10, `<a xmlns="u:u" xmlns:p="u:v"><p:b/></a>`, "b", "", `<p:b xmlns:p="u:v"></p:b>`},
		{"an element is left out", C14N10, `<a> <s><t/></s> <b/></a>`, "a", "s", `<a>  <b></b></a>`},
		{"a nested element is left out", C14N10, `<a><c><s/>x</c></a>`, "a", "s", `<a><c>x</c></a>`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := Parse([]byte(tt.in), Limits{}, func(d *Doc) error {
				var cut *Element
				if tt.cut != "" {
					cut = find(d.Root, tt.cut)
				}
				got, err := d.Canonical(find(d.Root, tt.of), tt.method, cut)
				if err != nil || string(got) != tt.want {
					t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	var old *Doc
	err := Parse([]byte("<a><b/><c/></a>"), Limits{}, func(d *Doc) error {
		old = d
		b, c := find(d.Root, "b"), find(d.Root, "c")
		for rule, try := range map[string]func() ([]byte, error){
			"no element":              func() ([]byte, error) { return d.Canonical(nil, C14N10, nil) },
			"another's element":       func() ([]byte, error) { return d.Canonical(&Element{}, C14N10, nil) },
			"an element copied":       func() ([]byte, error) { e := *b; return d.Canonical(&e, C14N10, nil) },
			"leaving out itself":      func() ([]byte, error) { return d.Canonical(b, C14N10, b) },
			"leaving out a neighbour": func() ([]byte, error) { return d.Canonical(b, C14N10, c) },
			"no such method":          func() ([]byte, error) { return d.Canonical(b, Method(9), nil) },
		} {
			if out, err := try(); err == nil {
				t.Errorf("%s: gave %s", rule, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := old.Canonical(old.Root, C14N10, nil); err != errClosed {
		t.Errorf("after Parse: %v", err)
	}
	// Canonical XML 1.0, section 1.3: relative namespace names are an error.
	if err := Parse([]byte(`<a xmlns="relative"/>`), Limits{}, func(d *Doc) error {
		_, err := d.Canonical(d.Root, C14N10, nil)
		return err
	}); err == nil {
		t.Error("a relative namespace name was canonicalized")
	}
}

// An exclusive form declares a namespace anew in every element that uses it.
func TestCanonicalDoesNotMultiply(t *testing.T) {
	name := "u:" + strings.Repeat("x", 1000)
	used := func(n int) string { return "<a xmlns:p='" + name + "'>" + strings.Repeat("<p:b/>", n) + "</a>" }
	for _, tt := range []struct {
		rule, in string
		method   Method
		ok       bool
	}{
		{"a name used by few", used(60), ExclusiveC14N10, true},
		{"a name used by many", used(6000), ExclusiveC14N10, false},
		{"a name used by many, declared once", used(6000), C14N10, true},
		{"the same by 1.1", used(6000), C14N11, true},
		{"the same in an attribute", "<a xmlns:p='" + name + "'>" + strings.Repeat("<b p:x=''/>", 6000) + "</a>", ExclusiveC14N10, false},
		{"a text that grows fourfold", "<a>" + strings.Repeat(">", 1<<20) + "</a>", C14N10, true},
		{"an attribute that grows sixfold", "<a x='" + strings.Repeat(`"`, 1<<20) + "'/>", C14N10, false},
	} {
		if err := Parse([]byte(tt.in), Limits{}, func(d *Doc) error {
			out, err := d.Canonical(d.Root, tt.method, nil)
			if most := canonicalGrowth*len(tt.in) + canonicalRoom; (err == nil) != tt.ok || len(out) > most {
				t.Errorf("%s: %d bytes of %d, %v", tt.rule, len(out), len(tt.in), err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

var secondOpinions = []string{
	`<a/>`,
	"<a xmlns='u:u' xmlns:p='u:v' z='1' p:a='2' b='&#10;&lt;&quot;'>\r\n <p:b xmlns:p='u:v' xmlns=''><c>é &amp; &gt;</c></p:b>\n</a>",
	`<p:a xmlns:p="u:u"><p:b xmlns:q="u:v" q:x="1" xmlns:p="u:w"/><b xmlns="u:z"><c xmlns=""/></b></p:a>`,
	`<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:x="y"><credential xml:id="ref0"><type>privilege</type></credential></signed-credential>`,
}

func TestCanonicalAgainstXmllint(t *testing.T) {
	require.Tool(t, "xmllint")
	for option, method := range map[string]Method{"--c14n": C14N10, "--c14n11": C14N11, "--exc-c14n": ExclusiveC14N10} {
		for _, in := range secondOpinions {
			cmd := exec.Command("xmllint", option, "-")
			cmd.Stdin = strings.NewReader(in)
			want, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			want = bytes.TrimSuffix(want, []byte("\n"))
			if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
				got, err := d.Canonical(d.Root, method, nil)
				if !bytes.Equal(got, want) {
					t.Errorf("%s of %s\ngot  %s, %v\nwant %s", option, in, got, err, want)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCanonicalAgainstGoxmldsig(t *testing.T) {
	for method, second := range map[Method]dsig.Canonicalizer{
		C14N10:          dsig.MakeC14N10RecCanonicalizer(),
		C14N11:          dsig.MakeC14N11Canonicalizer(),
		ExclusiveC14N10: dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(""),
	} {
		for _, in := range secondOpinions {
			doc := etree.NewDocument()
			if err := doc.ReadFromString(strings.ReplaceAll(in, "\r\n", "\n")); err != nil {
				t.Fatal(err)
			}
			want, err := second.Canonicalize(doc.Root())
			if err != nil {
				t.Fatal(err)
			}
			if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
				got, err := d.Canonical(d.Root, method, nil)
				if !bytes.Equal(got, want) {
					t.Errorf("method %d of %s\ngot  %s, %v\nwant %s", method, in, got, err, want)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
}
