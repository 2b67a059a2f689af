package faithful_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// inASCII writes a manifest twice, as it is and in ASCII: the two must mean the
// same to a reader that has never seen our tokens, comments apart.
func inASCII(t *testing.T, name string, request []byte, managers []urn.URN) {
	t.Helper()
	r, err := rspec.ParseRequest(request, rspec.ReadOptions{Managers: managers})
	if err != nil {
		return // TestCorpusOurs says whether that is right
	}
	d, err := parse(request)
	if err != nil {
		t.Fatal(err)
	}
	s := generous(read(d, managers), 0)
	var texts [2]string
	for i := range texts {
		s.o.ASCII = i == 1
		b, err := rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		texts[i] = string(b)
	}
	if isASCII(texts[0]) && texts[0] != texts[1] {
		t.Errorf("%s: ASCII mode changed what was ASCII", name)
	}
	a, err := parse([]byte(texts[1]))
	if err != nil {
		t.Errorf("%s in ASCII: %v", name, err)
		return
	}
	if where := notASCII(a); where != "" {
		t.Errorf("%s: not ASCII: %s", name, where)
	}
	plain, err := tokens(texts[0])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	ascii, err := tokens(texts[1])
	if err != nil {
		t.Fatalf("%s in ASCII: %v", name, err)
	}
	if plain != ascii {
		i := 0
		for i < min(len(plain), len(ascii)) && plain[i] == ascii[i] {
			i++
		}
		t.Errorf("%s: ASCII mode changed %.200q to %.200q", name, plain[max(0, i-50):], ascii[max(0, i-50):])
	}
}

// notASCII finds a character beyond ASCII where there is another spelling: not
// in names.
func notASCII(d *doc) string {
	b := append([]byte(nil), d.b...)
	hide := func(start, length int) {
		for i := range length {
			b[start+i] = ' '
		}
	}
	var tags func(e *elem)
	tags = func(e *elem) {
		hide(e.start+1, len(e.name))
		if !e.empty {
			hide(e.endTag+2, len(e.name))
		}
		for _, a := range e.attrs {
			hide(a.start, len(a.name))
		}
		for _, i := range e.items {
			if i.kind == element {
				tags(i.el)
			}
		}
	}
	tags(d.root)
	for i, c := range b {
		if c > 127 {
			return fmt.Sprintf("%.40q", d.b[max(0, i-20):])
		}
	}
	return ""
}

// tokens are the tokens of encoding/xml as text: character data joined, comments
// and the content of instructions left out.
func tokens(text string) (string, error) {
	var b strings.Builder
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is UTF-8, whatever its name
	for {
		token, err := d.RawToken()
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch x := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&b, "\n<%v", x.Name)
			for _, a := range x.Attr {
				fmt.Fprintf(&b, " %v=%q", a.Name, a.Value)
			}
			b.WriteString(">\n")
		case xml.EndElement:
			fmt.Fprintf(&b, "\n</%v>\n", x.Name)
		case xml.CharData:
			quoted := fmt.Sprintf("%q", x)
			b.WriteString(quoted[1 : len(quoted)-1])
		case xml.ProcInst:
			if x.Target != "xml" {
				fmt.Fprintf(&b, "\n<?%s?>\n", x.Target)
			}
		}
	}
}

// TestASCII writes the hand-written documents, and others of the same meaning.
func TestASCII(t *testing.T) {
	for name, b := range nasty(t) {
		inASCII(t, name, b, []urn.URN{manager})
		d, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(5) {
			inASCII(t, fmt.Sprintf("%s, seed %d", name, seed), perturb(d, seed), []urn.URN{manager})
		}
	}
}

// TestCorpusASCII writes those real requests that are not ASCII.
func TestCorpusASCII(t *testing.T) {
	names, all := requests(t)
	n := 0
	for _, name := range names {
		d, err := parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		if !isASCII(string(all[name])) {
			n++
			inASCII(t, name, all[name], everyManager(d))
		}
	}
	t.Logf("%d requests that are not ASCII", n)
}
