package xmltree

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sketch prints a tree with all its content.
func sketch(e *Element) string {
	var b strings.Builder
	var walk func(e *Element)
	walk = func(e *Element) {
		fmt.Fprintf(&b, "<%s{%s}%s", prefixed(e.Prefix), e.Space, e.Local)
		for _, a := range e.Attrs {
			fmt.Fprintf(&b, " %s{%s}%s=%q", prefixed(a.Prefix), a.Space, a.Local, a.Value)
		}
		b.WriteByte('>')
		for _, c := range e.Children {
			switch c := c.(type) {
			case *Element:
				walk(c)
			case Text:
				fmt.Fprintf(&b, "%q", string(c))
			case Comment:
				fmt.Fprintf(&b, "<!--%s-->", string(c))
			case PI:
				fmt.Fprintf(&b, "<?%s|%s?>", c.Target, c.Data)
			}
		}
		b.WriteString("</>")
	}
	walk(e)
	return b.String()
}

func prefixed(p string) string {
	if p == "" {
		return ""
	}
	return p + ":"
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"empty element", `<a/>`, `<{}a></>`},
		{"text with references", `<a>x &amp; &#233;&lt;</a>`, `<{}a>"x & é<"</>`},
		{"CDATA is merged into text", `<a>x<![CDATA[<y>]]>z</a>`, `<{}a>"x<y>z"</>`},
		{"CDATA alone is text", `<a><![CDATA[]]><![CDATA[&]]></a>`, `<{}a>"&"</>`},
		{"comments and PIs keep their place", `<a>x<!-- c -->y<?p d?></a>`, `<{}a>"x"<!-- c -->"y"<?p|d?></>`},
		{"default namespace", `<a xmlns="u:u"><b xmlns=""/></a>`, `<{u:u}a><{}b></></>`},
		{"prefixes", `<p:a xmlns:p="u:u" p:x="1" x="2"/>`, `<p:{u:u}a p:{u:u}x="1" {}x="2"></>`},
		{"one name under two prefixes", `<p:a xmlns:p="u:u" xmlns:q="u:u"><q:a/></p:a>`, `<p:{u:u}a><q:{u:u}a></></>`},
		{"xml prefix may be declared", `<a xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:lang="de"/>`, `<{}a xml:{http://www.w3.org/XML/1998/namespace}lang="de"></>`},
		{"namespace that is no URI", `<p:a xmlns:p="a b" xmlns="%"/>`, `<p:{a b}a></>`},
		{"xml prefix needs no declaration", `<a xml:lang="de"/>`, `<{}a xml:{http://www.w3.org/XML/1998/namespace}lang="de"></>`},
		{"attributes are normalized", "<a x='1\n2&#10;3'/>", `<{}a {}x="1 2\n3"></>`},
		{"attribute with references", `<a x="&lt;&amp;&quot;&apos;&#65;>"/>`, `<{}a {}x="<&\"'A>"></>`},
		{"line ends become LF", "<a>1\r\n2\r3</a>", `<{}a>"1\n2\n3"</>`},
		{"byte order mark", "\xef\xbb\xbf<a/>", `<{}a></>`},
		{"leading white space", "\n \t<?xml version='1.0'?><a/>", `<{}a></>`},
		{"utf-8 in any case", `<?xml version="1.0" encoding="uTf-8"?><a>é</a>`, `<{}a>"é"</>`},
		{"us-ascii", `<?xml version="1.0" encoding='US-ASCII' standalone='yes'?><a/>`, `<{}a></>`},
		{"XML 1.1 is read as 1.0", `<?xml version="1.1" encoding="UTF-8"?><a/>`, `<{}a></>`},
		{"what follows the root", "<a/><!-- c --><?p?>\n", `<{}a></>`},
		{"a > in an attribute", `<a x="1>2" y='/>'><b/></a>`, `<{}a {}x="1>2" {}y="/>"><{}b></></>`},
		{"nested", `<a><b><c/></b><d/></a>`, `<{}a><{}b><{}c></></><{}d></></>`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var got string
			err := Parse([]byte(tt.in), Limits{}, func(d *Doc) error {
				got = sketch(d.Root)
				return nil
			})
			if err != nil || got != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	laughs := `<!DOCTYPE a [<!ENTITY a0 "aaaaaaaaaa">`
	for i := 1; i < 9; i++ {
		laughs += fmt.Sprintf(`<!ENTITY a%d "%s">`, i, strings.Repeat(fmt.Sprintf("&a%d;", i-1), 10))
	}
	for _, tt := range []struct {
		rule, in string
		line     int
		msg      string
	}{
		{"nothing", "", 0, "empty"},
		{"white space alone", " \n\t", 0, "empty"},
		{"byte order mark alone", "\xef\xbb\xbf", 0, "empty"},
		{"no element", "<?xml version='1.0'?>\n<!-- c -->", 2, "not well-formed"},
		{"plain text", "hello", 1, "not well-formed"},
		{"unclosed", "<a>\n<b>\n</a>", 3, "mismatch: b line 2 and a"},
		{"line after leading blanks", "\n\n<a>\n<b></a>", 4, "mismatch: b line 4 and a"},
		{"two roots", "<a/>\n<b/>", 2, "not well-formed"},
		{"undefined entity", "<a>&x;</a>", 1, "Entity 'x' not defined"},
		{"undefined entity in an attribute", "<a b='&x;'/>", 1, "Entity 'x' not defined"},
		{"attribute twice", "<a b='' b=''/>", 1, "redefined"},
		{"attribute twice under two prefixes", "<a xmlns:p='u:u' xmlns:q='u:u' p:b='' q:b=''/>", 1, "twice"},
		{"prefix of an element not declared", "<a>\n<p:b/></a>", 2, "xmlns:p"},
		{"prefix of an attribute not declared", "<a p:b=''/>", 1, "xmlns:p"},
		{"the prefix xml means something else", "<a>\n<b/>\n<b xmlns:xml='u:u'\n/></a>", 3, "namespace"},
		{"the prefix xmlns is declared", "<a>\n<b xmlns:xmlns='u:u'/></a>", 2, "namespace"},
		{"a prefix is taken back", "<a xmlns:p='u:u'>\n<b xmlns:p=''/></a>", 2, "namespace"},
		{"another prefix for the namespace of xml", "<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", 1, "namespace"},
		{"the namespace of xml by default", "<a>\n<b xmlns='&#104;ttp://www.w3.org/XML/1998/namespace'/></a>", 2, "namespace"},
		{"a prefix for the namespace of xmlns", "<a xmlns:p='http://www.w3.org/2000/xmlns/'/>", 1, "namespace"},
		{"a forbidden declaration after a name that is no URI", "<a xmlns:q='a b'>\n<b xmlns:p=''/></a>", 2, "namespace"},
		{"DOCTYPE", "\n<!DOCTYPE a><a/>", 2, "DOCTYPE"},
		{"external DTD", `<!DOCTYPE a SYSTEM "http://127.0.0.1:1/x.dtd"><a/>`, 1, "DOCTYPE"},
		{"external entity", `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`, 1, "DOCTYPE"},
		{"billion laughs", laughs + "]><a>&a8;</a>", 1, "DOCTYPE"},
		{"DOCTYPE after a byte order mark and blanks", "\xef\xbb\xbf \n<!DOCTYPE a><a/>", 2, "DOCTYPE"},
		{"UTF-16 with a mark", "\xff\xfe<\x00a\x00/\x00>\x00", 0, "UTF-16"},
		{"UTF-16 without a mark", "<\x00a\x00/\x00>\x00", 1, "NUL"},
		{"NUL", "<a>\n\x00</a>", 2, "NUL"},
		{"not UTF-8", "<a>\n\xe9</a>", 2, "UTF-8"},
		{"another encoding declared", `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`, 1, "ISO-8859-1"},
		{"UTF-7 declared", `<?xml version='1.0' encoding = 'UTF-7' ?><a/>`, 1, "UTF-7"},
		{"two hyphens in a comment", "<a>\n<!--\na -- b --></a>", 3, "comment"},
		{"three hyphens at the end of a comment", "<a><!-- a ---></a>", 1, "comment"},
		{"two hyphens in a comment without end", "<a>\n<!-- -- >", 2, "comment"},
		{"hyphens are refused before libxml2 sees them", "<!--" + strings.Repeat("-", 1<<20) + "--><a/>", 1, "comment"},
		{"control character", "<a>\x01</a>", 1, "not well-formed"},
		{"XML 1.1 does not bring its control characters", `<?xml version="1.1"?><a>&#1;</a>`, 1, "not well-formed"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := Parse([]byte(tt.in), Limits{}, func(*Doc) error { t.Error("was read"); return nil })
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok || syntax.Line != tt.line || !strings.Contains(syntax.Msg, tt.msg) {
				t.Errorf("got %#v, want line %d and %q", err, tt.line, tt.msg)
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("the message has several lines: %q", err)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	attrs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " a%d = '<=>'", i)
		}
		return strings.ReplaceAll(b.String(), "<", "&lt;")
	}
	spaces := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\nxmlns:p%d ='u:u'", i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		rule, in string
		lim      Limits
		limit    string // "" = accepted
	}{
		{"bytes reached", "<a></a>", Limits{Bytes: 7}, ""},
		{"bytes passed", "<a> </a>", Limits{Bytes: 7}, "bytes"},
		{"depth reached", deep(8), Limits{Depth: 8}, ""},
		{"depth passed", deep(9), Limits{Depth: 8}, "levels of elements"},
		{"siblings are not depth", "<a>" + strings.Repeat("<b/>", 50) + strings.Repeat("<b></b>", 50) + "</a>", Limits{Depth: 2}, ""},
		{"default depth reached", deep(240), Limits{}, ""},
		{"default depth passed", deep(241), Limits{}, "levels of elements"},
		{"depth cannot be allowed beyond libxml2's own", deep(241), Limits{Depth: 1000}, "levels of elements"},
		{"deep is refused before libxml2 sees it", strings.Repeat("<a>", 1<<20), Limits{}, "levels of elements"},
		{"elements reached", "<a>" + strings.Repeat("<b/>", 9) + "</a>", Limits{Elements: 10}, ""},
		{"elements passed", "<a>" + strings.Repeat("<b/>", 10) + "</a>", Limits{Elements: 10}, "elements"},
		{"what looks like elements in CDATA and comments", "<a><![CDATA[" + strings.Repeat("<b>", 20) + "]]><!--" + strings.Repeat("<b>", 20) + "--></a>", Limits{Elements: 10, Depth: 2}, ""},
		{"comments count", "<a>" + strings.Repeat("<!---->", 10) + "</a>", Limits{Elements: 10}, "elements"},
		{"PIs count", "<a>" + strings.Repeat("<?p?>", 10) + "</a>", Limits{Elements: 10}, "elements"},
		{"attributes reached", "<a" + attrs(20) + "/>", Limits{Attrs: 20}, ""},
		{"attributes passed", "<a" + attrs(21) + "/>", Limits{Attrs: 20}, "attributes of one element"},
		{"attributes in all", "<a>" + strings.Repeat("<b"+attrs(10)+"/>", 5) + "</a>", Limits{Elements: 10}, "attributes"},
		{"namespaces reached", "<a" + spaces(10) + "/>", Limits{Namespaces: 10}, ""},
		{"namespaces passed", "<a" + spaces(6) + "><b" + spaces(5) + "/></a>", Limits{Namespaces: 10}, "namespace declarations in scope"},
		{"name of a namespace reached", "<a b='12345678' xmlns = 'u:345678' c='12345678'/>", Limits{NamespaceBytes: 8}, ""},
		{"name of a namespace passed", "<a><b xmlns:p = 'u:3456789' c=''/></a>", Limits{NamespaceBytes: 8}, "bytes in the name of a namespace"},
		{"name of a namespace without a limit", "<a xmlns='u:" + strings.Repeat("x", 1<<20) + "'/>", Limits{}, ""},
		{"namespaces of siblings do not add up", "<a>" + strings.Repeat("<b xmlns='u:u'></b><b xmlns='u:u'/>", 20) + "</a>", Limits{Namespaces: 1}, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := Parse([]byte(tt.in), tt.lim, func(*Doc) error { return nil })
			limit, ok := errors.AsType[*LimitError](err)
			switch {
			case tt.limit == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.limit != "" && (!ok || limit.Limit != tt.limit):
				t.Errorf("got %v, want a limit on %s", err, tt.limit)
			}
		})
	}
}

func TestBigAttributeIsReadOrRefused(t *testing.T) {
	big := strings.Repeat("x", 5<<20)
	err := Parse([]byte("<a b='"+big+"'/>"), Limits{}, func(d *Doc) error {
		if v, _ := d.Root.Attr("", "b"); v != big {
			t.Error("the value was changed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = Parse([]byte("<a b='"+big+big+big+"'/>"), Limits{Bytes: 20 << 20}, func(*Doc) error { return nil })
	if _, ok := errors.AsType[*SyntaxError](err); !ok {
		t.Errorf("15 MB in one attribute: %v", err)
	}
}

func TestLinesBeyond65535(t *testing.T) {
	in := "\n<a>" + strings.Repeat("\n", 70_000) + "<b\n/><c/>" + strings.Repeat("\r\n", 10) + "<d/></a>"
	err := Parse([]byte(in), Limits{}, func(d *Doc) error {
		var got []int
		for _, e := range append([]*Element{d.Root}, d.Root.Elements()...) {
			got = append(got, e.Line)
		}
		if diff := cmp.Diff([]int{2, 70_002, 70_003, 70_013}, got); diff != "" {
			t.Error(diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = Parse([]byte(in+"<"), Limits{}, nil)
	if e, ok := errors.AsType[*SyntaxError](err); !ok || e.Line != 70_013 {
		t.Errorf("got %v, want line 70013", err)
	}
}

func TestSourceAndOffset(t *testing.T) {
	in := "\xef\xbb\xbf\n <?xml version='1.1'?><a/>"
	if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
		if d.Offset != 5 || string(d.Source) != "<?xml version='1.0'?><a/>" {
			t.Errorf("offset %d, source %q", d.Offset, d.Source)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(in, "1.1") {
		t.Error("the caller's bytes were changed")
	}
}

func TestTreeOutlivesTheDocument(t *testing.T) {
	var root *Element
	if err := Parse([]byte(`<a x="1"><b>text</b></a>`), Limits{}, func(d *Doc) error { root = d.Root; return nil }); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	b := root.Elements()[0]
	if b.Text() != "text" || b.Parent != root || b.Index != 1 || root.Text() != "text" {
		t.Errorf("%s", sketch(root))
	}
}

func TestErrorAndPanicOfTheReader(t *testing.T) {
	mine := errors.New("mine")
	if err := Parse([]byte("<a/>"), Limits{}, func(*Doc) error { return mine }); err != mine {
		t.Errorf("got %v", err)
	}
	var doc *Doc
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic was swallowed")
			}
		}()
		_ = Parse([]byte("<a/>"), Limits{}, func(d *Doc) error { doc = d; panic("mine") })
	}()
	if _, err := doc.Canonical(doc.Root, C14N10, nil); err != errClosed {
		t.Errorf("after the panic: %v", err)
	}
}

func TestParallel(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				in := fmt.Sprintf(`<a xmlns="u:%d"><b x="%d">text</b></a>`, g, i)
				err := Parse([]byte(in), Limits{}, func(d *Doc) error {
					out, err := d.Canonical(d.Root, C14N10, nil)
					if string(out) != in {
						return fmt.Errorf("got %s, %v, want %s", out, err, in)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if err := Parse([]byte(in[:len(in)-i%5-1]), Limits{}, func(*Doc) error { return nil }); err == nil {
					t.Error("a broken document was read")
				}
			}
		})
	}
	wg.Wait()
}

func TestMemoryIsFlat(t *testing.T) {
	good := []byte(`<r xmlns="u:u" xmlns:p="u:v">` + strings.Repeat(`<p:n p:a="1" b="&amp;">t<![CDATA[x]]><!-- c --></p:n>`, 100) + `</r>`)
	bad := good[:len(good)-1]
	unbound := []byte(`<r>` + strings.Repeat(`<n/>`, 100) + `<p:n/></r>`)
	round := func(n int) {
		for range n {
			_ = Parse(good, Limits{}, func(d *Doc) error {
				_, err := d.Canonical(d.Root, ExclusiveC14N10, d.elements[1])
				return err
			})
			_ = Parse(bad, Limits{}, nil)
			_ = Parse(unbound, Limits{}, nil)
			func() {
				defer func() { _ = recover() }()
				_ = Parse(good, Limits{}, func(*Doc) error { panic("mine") })
			}()
		}
		runtime.GC()
	}
	round(300)
	before := resident(t)
	round(1500)
	if grown := resident(t) - before; grown > 8<<10 {
		t.Errorf("grew by %d kB over 6000 documents of 6 kB", grown)
	}
}

// resident is the memory of this process in kB.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("needs /proc")
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FuzzParse compares libxml2's tree with the tokens of encoding/xml.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`<a xmlns="u:u" xmlns:p="u:v" p:x="&lt;1"><p:b>t<![CDATA[x]]><!-- c --><?p d?></p:b></a>`))
	f.Add([]byte("\xef\xbb\xbf\n<?xml version='1.1' encoding='UTF-8'?><a>&#233;é</a>"))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`))
	f.Add([]byte(`<a b='1>2' c="x'y"></a ><!-- > -->`))
	f.Fuzz(func(t *testing.T, b []byte) {
		given := bytes.Clone(b)
		err := Parse(b, Limits{Bytes: 1 << 16}, func(d *Doc) error {
			dec := xml.NewDecoder(bytes.NewReader(d.Source))
			dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
			n := 0
			for {
				tok, err := dec.RawToken()
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil // encoding/xml is stricter in places, such as names
				}
				if s, ok := tok.(xml.StartElement); ok {
					if n >= len(d.elements) || d.elements[n].Local != s.Name.Local || d.elements[n].Prefix != s.Name.Space {
						t.Fatalf("element %d: encoding/xml reads %v", n, s.Name)
					}
					n++
				}
			}
			if n != len(d.elements) {
				t.Fatalf("libxml2 has %d elements, encoding/xml %d", len(d.elements), n)
			}
			once, err := d.Canonical(d.Root, C14N10, nil)
			if err != nil {
				return nil
			}
			return Parse(once, Limits{}, func(d *Doc) error {
				twice, err := d.Canonical(d.Root, C14N10, nil)
				if err != nil || !bytes.Equal(once, twice) {
					t.Fatalf("canonical form is not stable:\n%s\n%s, %v", once, twice, err)
				}
				return nil
			})
		})
		if _, ok := errors.AsType[*SyntaxError](err); err != nil && !ok {
			if _, ok := errors.AsType[*LimitError](err); !ok {
				t.Fatalf("error of type %T: %v", err, err)
			}
		}
		if !bytes.Equal(given, b) {
			t.Fatal("the bytes were changed")
		}
	})
}

// TestDocumentsDoNotWriteToStandardError has a child parse what libxml2 prints
// about, on many threads.
func TestDocumentsDoNotWriteToStandardError(t *testing.T) {
	if os.Getenv("PATCHBAY_NOISY_CHILD") != "" {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				runtime.LockOSThread()
				for _, s := range []string{`<a xml:id="x"><b xml:id="x"/></a>`, `<a xml:id="1 2"/>`, `<a xmlns:p="not a uri%"/>`, `<a`, `<a>&b;</a>`} {
					Parse([]byte(s), Limits{}, func(*Doc) error { return nil })
				}
			})
		}
		all.Wait()
		return
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestDocumentsDoNotWriteToStandardError$")
	c.Env = append(os.Environ(), "PATCHBAY_NOISY_CHILD=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v; standard error: %q", err, stderr.String())
	}
}
