package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"patchbay/rspec/view"
	"patchbay/schemas/xmltree"
)

// sketch makes pictures without a document.
type sketch struct{ d view.Document }

// network has n nodes named node0, node1, … of each of some managers in turn.
func network(n, managers int) *sketch {
	w := &sketch{view.Document{Kind: view.Request}}
	for m := range managers {
		name := fmt.Sprintf("m%d.example.org", m)
		w.d.Managers = append(w.d.Managers, view.Manager{URN: "urn:publicid:IDN+" + name + "+authority+cm", Name: name})
	}
	for i := range n {
		w.d.Nodes = append(w.d.Nodes, view.Node{Name: fmt.Sprintf("node%d", i), Manager: i % managers, SliverTypes: []string{"raw-pc"}, Image: "debian12"})
	}
	return w
}

// link joins nodes; -1 is an interface that no node has.
func (w *sketch) link(nodes ...int) *view.Link {
	l := view.Link{Name: fmt.Sprintf("link%d", len(w.d.Links))}
	for k, n := range nodes {
		if n < 0 {
			l.Ends = append(l.Ends, view.End{Name: fmt.Sprintf("unnamed:if%d", k), Node: -1, Interface: -1})
			continue
		}
		node := &w.d.Nodes[n]
		i := len(node.Interfaces)
		in := view.Interface{Name: fmt.Sprintf("%s:if%d", node.Name, i), Addresses: []string{fmt.Sprintf("10.%d.%d.%d", len(w.d.Links)/250, len(w.d.Links)%250, k+1)}, Linked: true}
		node.Interfaces = append(node.Interfaces, in)
		l.Ends = append(l.Ends, view.End{Name: in.Name, Node: n, Interface: i})
	}
	w.d.Links = append(w.d.Links, l)
	return &w.d.Links[len(w.d.Links)-1]
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// topologies are the forms that experiments have.
func topologies() map[string]*view.Document {
	all := map[string]*sketch{}
	add := func(name string, n, managers int) *sketch {
		all[name] = network(n, managers)
		return all[name]
	}
	add("Nothing", 0, 0)
	add("One", 1, 1)
	add("Loose", 20, 1)
	add("Pair", 2, 1).link(0, 1)
	w := add("ParallelLinks", 2, 1)
	for range 4 {
		w.link(0, 1)
		w.link(1, 0)
	}
	w = add("ParallelAroundABox", 3, 1)
	for _, l := range [][]int{{0, 1}, {1, 2}, {0, 2}, {2, 0}} {
		w.link(l...)
	}
	add("SmallLAN", 3, 1).link(upTo(3)...)
	add("LargeLAN", 60, 1).link(upTo(60)...)
	w = add("LANAndRing60", 60, 1)
	w.link(upTo(60)...)
	for i := range 60 {
		w.link(i, (i+1)%60)
	}
	w = add("LANAndChain300", 300, 1)
	w.link(upTo(300)...)
	for i := range 299 {
		w.link(i, i+1)
	}
	w = add("LANTwice", 30, 1)
	w.link(append(upTo(30), upTo(30)...)...)
	w = add("TwoLANs", 10, 1)
	w.link(upTo(10)...)
	w.link(upTo(10)...)
	for _, n := range []int{5, 14, 60} {
		w = add(fmt.Sprintf("Chain%d", n), n, 1)
		for i := range n - 1 {
			w.link(i, i+1)
		}
	}
	for _, n := range []int{4, 12, 40} {
		w = add(fmt.Sprintf("Star%d", n), n, 1)
		for i := 1; i < n; i++ {
			w.link(0, i)
		}
	}
	for _, n := range []int{3, 4, 10, 33} {
		w = add(fmt.Sprintf("Ring%d", n), n, 1)
		for i := range n {
			w.link(i, (i+1)%n)
		}
	}
	for _, n := range []int{4, 8} {
		w = add(fmt.Sprintf("Grid%d", n), n*n, 1)
		for i := range n * n {
			if i%n < n-1 {
				w.link(i, i+1)
			}
			if i < n*(n-1) {
				w.link(i, i+n)
			}
		}
	}
	for _, n := range []int{5, 9} {
		w = add(fmt.Sprintf("Mesh%d", n), n, 1)
		for i := range n {
			for j := range i {
				w.link(i, j)
			}
		}
	}
	w = add("Tree", 31, 1)
	for i := 1; i < 31; i++ {
		w.link((i-1)/2, i)
	}
	w = add("SixtyOverTwoManagers", 60, 2)
	for k := range 6 {
		ends := []int{k % 2}
		for i := range 9 {
			ends = append(ends, 2+k+6*i)
		}
		w.link(ends...)
	}
	w.link(0, 1)
	w = add("LANOverFourManagers", 16, 4)
	w.link(upTo(16)...)
	w = add("ManagersInARing", 24, 6)
	for i := range 24 {
		w.link(i, (i+1)%24)
	}
	w = add("Dangling", 3, 1)
	w.link(0, -1)
	w.link(1)
	w.link()
	w.link(-1, -1)
	w.link(2, 2)
	out := map[string]*view.Document{}
	for name, w := range all {
		out[name] = &w.d
	}
	return out
}

// drawn is the scene of a picture as SVG draws it.
func drawn(d *view.Document) *scene {
	s := newScene(d)
	s.layOut()
	return s
}

func svgOf(t interface {
	Helper()
	Fatal(...any)
}, d *view.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, d, SVGOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPartOfAPage checks that a picture for a page has classes for states, and hides the heading.
func TestPartOfAPage(t *testing.T) {
	w := network(2, 1)
	w.link(0, 1)
	w.d.Kind, w.d.Nodes[0].State, w.d.Nodes[1].State = view.Manifest, "ready", `"><script>`
	var b bytes.Buffer
	if err := SVG(&b, &w.d, SVGOptions{Title: "my <nodes>", Class: func(s string) string { return "s-" + s }}); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	if err := checkSVG(svg); err != nil {
		t.Error(err)
	}
	for want, times := range map[string]int{`<g class="s-ready">`: 1, `<g class="s-&#34;&gt;&lt;script&gt;">`: 1, "<title>my &lt;nodes&gt;</title>": 1, "my &lt;nodes&gt;</text>": 0, "Manifest:": 0} {
		if n := strings.Count(svg, want); n != times {
			t.Errorf("%s is there %d times, want %d", want, n, times)
		}
	}
}

func textOf(t testing.TB, d *view.Document, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, d, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func read(t testing.TB, text string) *view.Document {
	t.Helper()
	d, err := view.Read([]byte(text), xmltree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkSVG returns an error if a drawing is not well-formed or refers to other documents.
func checkSVG(svg string) error {
	d := xml.NewDecoder(strings.NewReader(svg))
	d.Strict = true
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch e.Name.Local {
		case "svg", "title", "rect", "g", "path", "text", "circle":
		default:
			return fmt.Errorf("an element <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" || strings.Contains(a.Value, "url(") {
				return fmt.Errorf("an attribute %s=%q", a.Name.Local, a.Value)
			}
		}
	}
}

// checkTerminal returns an error if a text has terminal control characters.
func checkTerminal(text string) error {
	for i, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x2069) {
			return fmt.Errorf("character %U at %d", r, i)
		}
	}
	return nil
}

func document(kind, body string) string {
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="` + kind + `">` + body + `</rspec>`
}
