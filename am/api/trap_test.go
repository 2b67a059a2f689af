package api

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// The traps are the 40 places where deployed clients fail on an aggregate that
// follows the specification. Each has a test named TestTrap and its number. It
// examines the bytes that are sent, without our own decoder.

// TestAllTrapsHaveATest counts the trap tests of this package and of the served program.
func TestAllTrapsHaveATest(t *testing.T) {
	const traps = 40
	found := map[int]bool{}
	for _, folder := range []string{".", "../../cmd/patchbay/e2e"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func TestTrap(\d\d)[A-Z]\w*\(t \*testing\.T\)`).FindAllSubmatch(b, -1) {
				n, _ := strconv.Atoi(string(m[1]))
				found[n] = true
			}
		}
	}
	for n := 1; n <= traps; n++ {
		if !found[n] {
			t.Errorf("trap %d has no test", n)
		}
	}
	if len(found) != traps {
		t.Errorf("tests of %d traps, want %d: %v", len(found), traps, slices.Sorted(maps.Keys(found)))
	}
}

// onWire is an element of an answer as any reader of XML sees it.
type onWire struct {
	name string
	attr map[string]string
	kids []*onWire
	text string
}

// readWire reads XML with the standard library alone.
func readWire(text string) (*onWire, error) {
	top := &onWire{}
	open := []*onWire{top}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		last := open[len(open)-1]
		switch x := token.(type) {
		case xml.StartElement:
			e := &onWire{name: x.Name.Local, attr: map[string]string{}}
			for _, a := range x.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			last.kids = append(last.kids, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(x)
		}
	}
	if len(top.kids) != 1 {
		return nil, fmt.Errorf("%d roots", len(top.kids))
	}
	return top.kids[0], nil
}

func (e *onWire) child(name string) *onWire {
	for _, k := range e.kids {
		if k.name == name {
			return k
		}
	}
	return nil
}

// find are all elements of that name, in their order.
func (e *onWire) find(name string) (all []*onWire) {
	for _, k := range e.kids {
		if k.name == name {
			all = append(all, k)
		}
		all = append(all, k.find(name)...)
	}
	return all
}

// at walks from an answer or a value to the typed element of a member or an item:
// "value.geni_slivers.0.geni_expires"; nil where there is none.
func (e *onWire) at(path string) *onWire {
	for e.name == "methodResponse" || e.name == "params" || e.name == "param" || e.name == "value" {
		if len(e.kids) != 1 {
			return nil
		}
		e = e.kids[0]
	}
	if path == "" {
		return e
	}
	first, rest, _ := strings.Cut(path, ".")
	switch e.name {
	case "struct":
		for _, m := range e.kids {
			if n := m.child("name"); n != nil && n.text == first && m.child("value") != nil {
				return m.child("value").at(rest)
			}
		}
	case "array":
		items := e.child("data").kids
		if n, err := strconv.Atoi(first); err == nil && n < len(items) {
			return items[n].at(rest)
		}
	}
	return nil
}

// items are the values of an array.
func (e *onWire) items() (all []*onWire) {
	for _, v := range e.child("data").kids {
		all = append(all, v.at(""))
	}
	return all
}

// is returns an error if the element at path has another type or, with a text,
// another text.
func (e *onWire) is(path, typ string, text ...string) error {
	x := e.at(path)
	switch {
	case x == nil:
		return fmt.Errorf("%s is missing", path)
	case x.name != typ:
		return fmt.Errorf("%s is <%s>, not <%s>", path, x.name, typ)
	case len(text) > 0 && x.text != text[0]:
		return fmt.Errorf("%s is %q, not %q", path, x.text, text[0])
	}
	return nil
}

// first is the first error of several checks.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// send has a call answered at the URL of a version; params are values as they
// stand on the wire.
func (c *caller) send(version int, method string, params ...string) string {
	var b strings.Builder
	b.WriteString("<?xml version='1.0'?>\n<methodCall><methodName>" + method + "</methodName><params>")
	for _, p := range params {
		b.WriteString("<param><value>" + p + "</value></param>")
	}
	b.WriteString("</params></methodCall>")
	return c.post(version, b.String())
}

// post has any body answered.
func (c *caller) post(version int, body string) string {
	return string(c.site.api.Serve(context.Background(), version, Request{ID: "r1", Chain: c.chain, Body: []byte(body)}).Body)
}

// wire writes a value as it stands on the wire, without <value> around it.
func wire(t testing.TB, v xmlrpc.Value) string {
	t.Helper()
	b, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: "x", Params: []xmlrpc.Value{v}})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "<param><value>")
	return rest[:strings.LastIndex(rest, "</value></param>")]
}

// ask is send with values of ours, read as a client would.
func (c *caller) ask(version int, method string, params ...xmlrpc.Value) *onWire {
	c.site.t.Helper()
	var list []string
	for _, p := range params {
		list = append(list, wire(c.site.t, p))
	}
	return c.read(c.send(version, method, list...))
}

func (c *caller) read(body string) *onWire {
	c.site.t.Helper()
	e, err := readWire(body)
	if err != nil {
		c.site.t.Fatalf("an answer that is no XML: %v", err)
	}
	return e
}

// code is the geni_code of an answer; -1 for a Fault.
func (e *onWire) code() am.Code {
	x := e.at("code.geni_code")
	if x == nil {
		return -1
	}
	n, err := strconv.Atoi(x.text)
	if err != nil {
		return -1
	}
	return am.Code(n)
}

func (e *onWire) want(t testing.TB, what string, codes ...am.Code) *onWire {
	t.Helper()
	if !slices.Contains(codes, e.code()) {
		output := ""
		if x := e.at("output"); x != nil {
			output = x.text
		}
		t.Fatalf("%s: code %d %q, want %d", what, e.code(), output, codes)
	}
	return e
}
