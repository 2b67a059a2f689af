package faithful_test

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am/urn"
	"patchbay/rspec"
	"patchbay/testdata/need"
)

// requests are the well-formed requests of RSpec version 3 in the corpus, in
// the order of their names.
func requests(t testing.TB) (names []string, found map[string][]byte) {
	t.Helper()
	found = map[string][]byte{}
	for _, kind := range []string{"request", "synthetic"} {
		for name, b := range folder(t, kind) {
			if d, err := parse(b); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if d.root.is(core, "rspec") && d.root.get("type") == "request" {
				found[name] = b
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), found
}

// folder is what a folder of the corpus holds.
func folder(t testing.TB, name string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(need.Shared(t, "corpus", "rspecs", name), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s is empty: %v", name, err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = b
	}
	return found
}

// held writes a generous manifest of a request and holds the two against each
// other. It gives the request as it was read, or why it was rightly refused; then
// the manifest is that of a request that was stored before.
func held(t *testing.T, name string, b []byte, managers []urn.URN) (r *rspec.Request, manifest []byte, reasons []string) {
	t.Helper()
	d, err := parse(b)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil, nil, nil
	}
	r, err = rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers})
	reasons, wrong := expected(d, managers, err)
	if wrong != nil {
		t.Errorf("%s: %v", name, wrong)
		return nil, nil, nil
	}
	if err != nil {
		// It is written all the same: as a request that was taken before.
		if r, err = rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers, Stored: true}); err != nil {
			t.Errorf("%s, stored: %v", name, err)
			return nil, nil, nil
		}
	}
	s := generous(read(d, managers), 0)
	manifest, err = rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil, nil, nil
	}
	wrongs := compare(b, manifest, managers, s)
	for _, w := range wrongs[:min(len(wrongs), 5)] {
		t.Errorf("%s: %s", name, w)
	}
	if reasons != nil {
		return nil, nil, reasons
	}
	return r, manifest, nil
}

// TestCorpusOurs reads every node of every real request as ours.
func TestCorpusOurs(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	nodes, links := 0, 0
	refused := map[string][]string{}
	for _, name := range names {
		d, err := parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		r, _, reasons := held(t, name, all[name], everyManager(d))
		for _, reason := range reasons {
			refused[reason] = append(refused[reason], name)
		}
		if r != nil {
			nodes += len(r.Nodes)
			links += len(r.Links)
		}
	}
	t.Logf("%d requests with %d own nodes and %d own links", len(names), nodes, links)
	for reason, names := range refused {
		t.Logf("refused as the table says: %s: %q", reason, names)
	}
}

// TestCorpusForeign gives every node and link of every real request to another
// aggregate, and puts an own node in the middle and one at the end. None may be
// refused, and nothing of the others' may change.
func TestCorpusForeign(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	foreign := 0
	for i, name := range names {
		b, err := estrange(all[name], i%2 == 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, _, reasons := held(t, name, b, []urn.URN{manager})
		if reasons != nil {
			t.Errorf("%s: refused: %q", name, reasons)
		} else if r != nil {
			foreign += r.Foreign
			if len(r.Nodes) != 2 || len(r.Links) != 0 {
				t.Errorf("%s: %d own nodes and %d own links", name, len(r.Nodes), len(r.Links))
			}
		}
	}
	t.Logf("%d requests with %d foreign nodes", len(names), foreign)
}

// estrange makes everything another aggregate's but two nodes. Links that name
// no manager get one, too, if name is true or nothing else tells whose they are.
func estrange(b []byte, name bool) ([]byte, error) {
	const other = "urn:publicid:IDN+elsewhere.example.net+authority+cm"
	d, err := parse(b)
	if err != nil {
		return nil, err
	}
	var all splices
	nodes := d.root.all(core, "node")
	for i, n := range nodes {
		if a := n.attr("", "component_manager_id"); a != nil {
			all.add(a.val, a.end-1, strings.ReplaceAll(other, "+cm", []string{"+cm", "+am"}[i%2]))
		} else {
			all.add(n.start+1+len(n.name), n.start+1+len(n.name), ` component_manager_id="`+other+`"`)
		}
	}
	for _, l := range d.root.all(core, "link") {
		managers := l.all(core, "component_manager")
		for _, m := range managers {
			if a := m.attr("", "name"); a != nil {
				all.add(a.val, a.end-1, other)
			}
		}
		if len(managers) == 0 && (name || len(l.all(core, "interface_ref")) == 0) {
			all.into(d, l, `<component_manager xmlns="`+core+`" name="`+other+`"/>`)
		}
	}
	middle := `<mine:node xmlns:mine="` + core + `" client_id="own in the middle"><mine:interface client_id='own:0'/></mine:node>`
	if len(nodes) > 0 {
		at := nodes[len(nodes)/2].start
		all.add(at, at, middle)
	} else {
		all.into(d, d.root, middle)
	}
	all.into(d, d.root, "\n  <node xmlns='"+core+"' client_id=\"own at the end\" exclusive='false'/>")
	return all.on(b), nil
}

// splices are replacements of bytes.
type splices []splice

type splice struct {
	start, end int
	text       string
}

func (s *splices) add(start, end int, text string) { *s = append(*s, splice{start, end, text}) }

// into adds a child at the end of an element, be it one empty tag.
func (s *splices) into(d *doc, e *elem, child string) {
	if !e.empty {
		s.add(e.endTag, e.endTag, child)
		return
	}
	for i, other := range *s {
		if other.end == e.end && strings.HasPrefix(other.text, ">") {
			(*s)[i].text = strings.TrimSuffix(other.text, "</"+e.name+">") + child + "</" + e.name + ">"
			return
		}
	}
	s.add(e.end-2, e.end, ">"+child+"</"+e.name+">")
}

func (s splices) on(b []byte) []byte {
	slices.SortStableFunc(s, func(a, b splice) int { return cmp.Compare(a.start, b.start) })
	var out bytes.Buffer
	pos := 0
	for _, p := range s {
		out.Write(b[pos:p.start])
		out.WriteString(p.text)
		pos = p.end
	}
	out.Write(b[pos:])
	return out.Bytes()
}

// meaning compares requests without where things stood.
var meaning = gocmp.Options{
	cmpopts.IgnoreUnexported(rspec.Node{}, rspec.Request{}),
	cmpopts.IgnoreFields(rspec.Node{}, "Line", "Column"), cmpopts.IgnoreFields(rspec.Interface{}, "Line"), cmpopts.IgnoreFields(rspec.Link{}, "Line", "Column"),
	cmpopts.IgnoreFields(rspec.Request{}, "Notices"), // they tell lines
	cmpopts.EquateComparable(netip.Prefix{}),
}
