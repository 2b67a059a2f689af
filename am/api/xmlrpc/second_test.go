package xmlrpc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"patchbay/schemas/xmltree"
)

// secondCall reads a call from a tree of libxml2. It checks neither limits nor the structure,
// because it only gets accepted calls.
func secondCall(root *xmltree.Element) Call {
	c := Call{Params: []Value{}}
	for _, e := range root.Elements() {
		switch e.Local {
		case "methodName":
			c.Method = strings.Trim(e.Text(), " \t\r\n")
		case "params":
			for _, p := range e.Elements() {
				c.Params = append(c.Params, secondValue(p.Elements()[0]))
			}
		}
	}
	return c
}

func secondValue(e *xmltree.Element) Value {
	typed := e.Elements()
	if len(typed) == 0 {
		return e.Text()
	}
	kind := typed[0].Local
	if p := typed[0].Prefix; p != "" {
		kind = p + ":" + kind
	}
	switch kind {
	case "string":
		return typed[0].Text()
	case "struct":
		s := Struct{}
		for _, m := range typed[0].Elements() {
			parts := m.Elements()
			s = append(s, Member{parts[0].Text(), secondValue(parts[1])})
		}
		return s
	case "array":
		a := []Value{}
		for _, v := range typed[0].Elements()[0].Elements() {
			a = append(a, secondValue(v))
		}
		return a
	}
	v, _ := scalar(kind, strings.Trim(typed[0].Text(), " \t\r\n"))
	return v
}

// bare is a document without the parts that DecodeCall ignores: attributes, processing
// instructions and the XML declaration.
func bare(in []byte) string {
	if declaresLatin1(in) {
		var text []rune
		for _, b := range in {
			text = append(text, rune(b))
		}
		in = []byte(string(text))
	}
	in = bytes.TrimPrefix(in, []byte("\ufeff"))
	d := xml.NewDecoder(bytes.NewReader(in))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var out strings.Builder
	root := ` xmlns:ex="u:u"` // for ex:nil
	for {
		from := d.InputOffset()
		t, err := d.RawToken()
		if err != nil {
			return out.String()
		}
		switch t := t.(type) {
		case xml.StartElement:
			out.WriteString("<" + label(t.Name) + root + ">")
			root = ""
		case xml.EndElement:
			out.WriteString("</" + label(t.Name) + ">")
		case xml.CharData, xml.Comment:
			out.Write(in[from:d.InputOffset()])
		}
	}
}

// tolerated are mistakes in XML that DecodeCall ignores and libxml2 does not. All are in parts
// that bare removes.
var tolerated = []struct{ rule, call string }{
	{"a prefix that is not declared", `<methodCall><methodName>A</methodName><params><param><value><ex:nil/></value></param></params></methodCall>`},
	{"a prefix that is declared as it must not be", `<methodCall xmlns:xml="u:u"><methodName>A</methodName></methodCall>`},
	{"an attribute twice", `<methodCall a="" a=""><methodName>A</methodName></methodCall>`},
	{"a processing instruction with an odd name", `<?X!?><methodCall><methodName>A</methodName></methodCall>`},
	{"odd words in the XML declaration", `<?xml version0?><methodCall><methodName>A</methodName></methodCall>`},
}

// readByLibxml2 reads in as it is.
func readByLibxml2(in []byte) (c Call, err error) {
	err = xmltree.Parse(in, xmltree.Limits{}, func(d *xmltree.Doc) error {
		c = secondCall(d.Root)
		return nil
	})
	return c, err
}

func compareCalls(t *testing.T, in []byte) {
	t.Helper()
	got, err := DecodeCall(in, Limits{})
	if err != nil {
		return
	}
	want, err := readByLibxml2(in)
	if _, limited := errors.AsType[*xmltree.LimitError](err); limited {
		return
	}
	if err != nil {
		want, err = readByLibxml2([]byte(bare(in)))
	}
	if err != nil {
		t.Fatalf("%q is read as %#v, libxml2 refuses it: %v", in, got, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\nis read as %#v\nby libxml2 %#v", in, got, want)
	}
}

// FuzzReading compares a decoded call with the same call read by libxml2.
func FuzzReading(f *testing.F) {
	for _, in := range []string{
		"<methodCall><methodName>GetVersion</methodName></methodCall>",
		"\ufeff<?xml version='1.0' encoding='us-ascii'?>\n<!-- c --><methodCall><?p?><methodName> a.b </methodName ><params/></methodCall>\n<!-- c -->",
		"<?xml version='1.0' encoding='ISO-8859-1'?><methodCall><methodName>A</methodName><params><param><value>\xe9&#233;</value></param></params></methodCall>",
		callOf("<value>a<!-- c --><![CDATA[<]]>&#233;&#13;\r\n&lt;</value>"),
		callOf("<value> <string>a<![CDATA[]]>]]&gt;<!-- c -->b</string> </value>"),
		callOf("<value><struct><member><name>a&amp;<![CDATA[b]]></name><value><double>-0.5</double></value></member><member><name/><value/></member></struct></value>"),
		callOf("<value><array><data><value><i8> 1 </i8></value><value><boolean>true</boolean></value><value><nil/></value></data></array></value>"),
		callOf("<value><base64>Q<!-- c -->Q=\n=</base64></value>") + "<?p?>",
		callOf("<value x='1' y=\"2\"><dateTime.iso8601>20260101T00:00:00</dateTime.iso8601></value>"),
	} {
		f.Add([]byte(in))
	}
	if dir := os.Getenv("PATCHBAY_CORPUS"); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "captures", "*", "*.request.xml"))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && len(text) < 2<<10 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) { compareCalls(t, in) })
}

// TestToleratedMistakes fails if a mistake is no longer tolerated, or also tolerated by libxml2.
func TestToleratedMistakes(t *testing.T) {
	for _, k := range tolerated {
		if _, err := DecodeCall([]byte(k.call), Limits{}); err != nil {
			t.Errorf("%s: refused: %v", k.rule, err)
		}
		if _, err := readByLibxml2([]byte(k.call)); err == nil {
			t.Errorf("%s: libxml2 tolerates it, too", k.rule)
		}
		compareCalls(t, []byte(k.call))
	}
}
