package faithful_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// apart gives the names of a request a mark, so that several of them can be one
// slice.
func apart(d *doc, mark string) []byte {
	var all splices
	rename := func(e *elem, name string) {
		if a := e.attr("", name); a != nil {
			all.add(a.val, a.val, mark)
		}
	}
	for _, n := range d.root.all(core, "node") {
		rename(n, "client_id")
		for _, i := range n.all(core, "interface") {
			rename(i, "client_id")
		}
	}
	for _, l := range d.root.all(core, "link") {
		rename(l, "client_id")
		for _, r := range l.all(core, "interface_ref") {
			rename(r, "client_id")
		}
		for _, p := range l.all(core, "property") {
			rename(p, "source_id")
			rename(p, "dest_id")
		}
	}
	return all.on(d.b)
}

// united writes the manifest of several requests and holds it against the
// manifests of each of them alone, which other tests hold.
func united(t *testing.T, name string, requests [][]byte) {
	t.Helper()
	var parts []rspec.Part
	var alone, asked []*doc
	var s story
	for i, b := range requests {
		d, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 { // as another request of the slice
			if d, err = parse(apart(d, fmt.Sprintf("part%d:", i))); err != nil {
				t.Fatal(err)
			}
		}
		asked = append(asked, d)
		managers := everyManager(d)
		r, err := rspec.ParseRequest(d.b, rspec.ReadOptions{Managers: managers})
		if err != nil {
			return // TestCorpusOurs says whether that is right
		}
		s = generous(read(d, managers), 0)
		parts = append(parts, s.part(r))
		m, err := rspec.WriteManifest(parts[i:], s.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d, err = parse(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		alone = append(alone, d)
	}
	b, err := rspec.WriteManifest(parts, s.o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all, err := parse(b)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, b)
		return
	}
	if wrong := isUnion(all, alone, asked); wrong != "" {
		t.Errorf("%s: %s", name, wrong)
	}
	// Sent back, it is one request and stays as it is.
	d, err := parse(again(t, b))
	if err != nil {
		t.Fatal(err)
	}
	passes(t, name+" together", d.b, everyManager(d))
}

// isUnion says what is wrong with a union of manifests of what was asked; empty
// if nothing is.
func isUnion(all *doc, parts, asked []*doc) string {
	whole := pieces(all)
	taken := make([]bool, len(whole))
	for i, part := range parts {
		at := 0
		for _, p := range pieces(part) {
			found := -1
			for j := range 2 * len(whole) {
				// What is there once for several parts may stand further to the front.
				if k := (at + j) % len(whole); (j >= len(whole) || !taken[k]) && p.becomes(whole[k], asked[i]) {
					found = k
					break
				}
			}
			if found < 0 {
				return fmt.Sprintf("part %d lost, or changed: %s", i, p)
			}
			taken[found] = true
			at = found + 1
		}
		if i == 0 {
			if root := part.bytes(part.root.start, part.root.start+1+len(part.root.name)); !strings.HasPrefix(string(all.b[all.root.start:]), root) {
				return "the root is not the first part's"
			}
			for _, a := range part.root.attrs {
				if a.space == "xmlns" && asked[0].root.attr("xmlns", a.local) == nil {
					continue // for a schemaLocation, which may have come with another part
				}
				other := all.root.attr(a.space, a.local)
				if other == nil || other.value != a.value && (a.local != "schemaLocation" || !holds(other.value, a.value)) {
					return fmt.Sprintf("the root's %s was %q and is %+v", a.name, a.value, other)
				}
			}
		}
	}
	for k, piece := range whole {
		if !taken[k] {
			return fmt.Sprintf("this comes from no part: %s", piece)
		}
	}
	for k, one := range whole {
		for _, other := range whole[:k] {
			if one.e != nil && other.e != nil && one.canon == other.canon && one.String() == other.String() {
				often := 0 // in one part
				for i, d := range parts {
					n := 0
					for _, p := range pieces(d) {
						if p.becomes(one, asked[i]) {
							n++
						}
					}
					often = max(often, n)
				}
				if often < 2 {
					return fmt.Sprintf("twice: %s", one)
				}
			}
		}
	}
	return ""
}

// holds tells whether all words of part are in list.
func holds(list, part string) bool {
	words := strings.Fields(list)
	for _, w := range strings.Fields(part) {
		if !slices.Contains(words, w) {
			return false
		}
	}
	return true
}

// piece is a child of a root: an element, a comment, an instruction.
type piece struct {
	d          *doc
	e          *elem // nil for the others
	start, end int
	canon      string
}

func (p piece) String() string { return fmt.Sprintf("%.2000s", p.d.bytes(p.start, p.end)) }

// pieces are those inside the root and around it.
func pieces(d *doc) (list []piece) {
	around := func(start, end int) {
		for s := (&scanner{b: d.b[:end], pos: start}); ; {
			if s.skipBlank(); s.pos == end {
				return
			}
			i, err := s.misc()
			if err != nil {
				panic(err) // it was read before
			}
			list = append(list, piece{d: d, start: i.start, end: i.end})
		}
	}
	around(d.declaration[1], d.root.start)
	for _, i := range d.root.items {
		switch i.kind {
		case element:
			list = append(list, piece{d, i.el, i.el.start, i.el.end, canon(d, i.el)})
		case comment, instruction:
			list = append(list, piece{d: d, start: i.start, end: i.end})
		}
	}
	around(d.root.end, len(d.b))
	return list
}

// becomes tells whether p is other: the same bytes but for declarations, and
// xml: attributes that hold for what is inside, at the end of the start tag; and
// under each prefix the same namespace as under the root that was asked for.
func (p piece) becomes(other piece, asked *doc) bool {
	if p.e == nil || other.e == nil {
		return p.e == nil && other.e == nil && p.d.bytes(p.start, p.end) == other.d.bytes(other.start, other.end)
	}
	if p.end-p.e.tag != other.end-other.e.tag || p.d.bytes(p.e.tag, p.end) != other.d.bytes(other.e.tag, other.end) || len(p.e.attrs) > len(other.e.attrs) {
		return false
	}
	behind := p.e.start + 1 + len(p.e.name)
	if n := len(p.e.attrs); n > 0 {
		behind = p.e.attrs[n-1].end
	}
	kept := p.d.bytes(p.start, behind)
	tag := other.d.bytes(other.start, other.e.tag)
	if !strings.HasPrefix(tag, kept) || !strings.HasSuffix(tag, p.d.bytes(behind, p.e.tag)) {
		return false
	}
	for _, a := range other.e.attrs[len(p.e.attrs):] {
		if a.space != "xmlns" && a.space != xmlSpace {
			return false
		}
	}
	for prefix := range asked.root.declared {
		if prefix != "" && !strings.Contains(p.canon+p.d.bytes(p.start, p.end), prefix+":") {
			continue // it says nothing here, not even in text or a value
		}
		was, _ := p.e.resolve(prefix)
		if is, _ := other.e.resolve(prefix); is != was {
			return false
		}
	}
	strip := func(e *elem) *elem {
		c := *e
		c.attrs = slices.DeleteFunc(slices.Clone(e.attrs), func(a attr) bool {
			return a.space == xmlSpace && p.e.attr(xmlSpace, a.local) == nil
		})
		return &c
	}
	return p.canon == canon(other.d, strip(other.e))
}

// TestUnions unites the hand-written documents, each with the next and with the
// first spelled in another way.
func TestUnions(t *testing.T) {
	all := nasty(t)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		next := names[(i+1)%len(names)]
		united(t, name+" and "+next, [][]byte{all[name], all[next]})
		d, err := parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		united(t, name+" thrice", [][]byte{all[name], all[name], perturb(d, uint64(i))})
	}
}

// TestCorpusUnions unites some of the real requests that follow each other.
func TestCorpusUnions(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	for i := 0; i+2 < len(names); i += 7 {
		united(t, fmt.Sprintf("%q", names[i:i+3]), [][]byte{all[names[i]], all[names[i+1]], all[names[i+2]]})
	}
}

// TestUnionTellsOthersOnce: what belongs to others is there once.
func TestUnionTellsOthersOnce(t *testing.T) {
	const other = `<node client_id="far" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm"><x:x xmlns:x="urn:example:x"/></node>`
	text := `<rspec xmlns="` + core + `" type="request"><node client_id="%s"/>` + other + `<e xmlns="urn:example:e">same</e></rspec>`
	var parts []rspec.Part
	for _, id := range []string{"a", "b", "c"} {
		r, err := rspec.ParseRequest(fmt.Appendf(nil, text, id), rspec.ReadOptions{Managers: []urn.URN{manager}})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, rspec.Part{Request: r, Nodes: map[string]rspec.NodeFacts{id: {}}})
	}
	b, err := rspec.WriteManifest(parts, rspec.ManifestOptions{Manager: manager})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(b), other) != 1 || strings.Count(string(b), `<e xmlns="urn:example:e">same</e>`) != 1 || strings.Count(string(b), "<node") != 4 {
		t.Errorf("%s", b)
	}
}
