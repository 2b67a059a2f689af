package faithful_test

import (
	"bytes"
	"slices"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// again makes a request of a manifest, as users do: only the type is another.
func again(t *testing.T, manifest []byte) []byte {
	t.Helper()
	d, err := parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	a := d.root.attr("", "type")
	return splices{{a.val, a.end - 1, "request"}}.on(manifest)
}

// passes writes a manifest, and manifests of manifests: in the second the facts
// have found their place, and then nothing changes.
func passes(t *testing.T, name string, request []byte, managers []urn.URN) {
	t.Helper()
	r, first, reasons := held(t, name, request, managers)
	if reasons != nil || first == nil {
		return
	}
	if string(r.Text()) != string(request) {
		t.Errorf("%s: the request was changed", name)
	}
	_, second, reasons := held(t, name+", again", again(t, first), managers)
	if second == nil {
		t.Errorf("%s: the manifest is refused: %q", name, reasons)
		return
	}
	_, third, _ := held(t, name+", a third time", again(t, second), managers)
	if !bytes.Equal(second, third) {
		t.Errorf("%s: the third manifest differs from the second:\n%s\n%s", name, second, third)
	}
	if a, b := bare(t, first, managers), bare(t, second, managers); a != b {
		t.Errorf("%s: the second manifest differs from the first:\n%s\n%s", name, a, b)
	}
}

// bare is a manifest without the children that tell facts, and without the white
// space before them.
func bare(t *testing.T, manifest []byte, managers []urn.URN) string {
	t.Helper()
	d, err := parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var all splices
	for e, role := range read(d, managers).role {
		for _, s := range stale {
			if s.role != role {
				continue
			}
			for _, c := range e.all(s.space, s.name) {
				start := c.start
				for isBlank(d.b[start-1]) {
					start--
				}
				all.add(start, c.end, "")
			}
		}
	}
	return string(all.on(manifest))
}

// TestManifestsAsRequests sends manifests back: our own of the hand-written
// documents, of each third real request, and real ones of other aggregates.
func TestManifestsAsRequests(t *testing.T) {
	for name, b := range nasty(t) {
		passes(t, name, b, []urn.URN{manager})
	}
}

func TestCorpusManifestsAsRequests(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	for i, name := range names {
		if i%3 == 0 {
			d, err := parse(all[name])
			if err != nil {
				t.Fatal(err)
			}
			passes(t, name, all[name], everyManager(d))
		}
	}
	manifests := 0
	for name, b := range folder(t, "manifest") {
		d, err := parse(b)
		if err != nil || !d.root.is(core, "rspec") || d.root.attr("", "type") == nil {
			continue
		}
		manifests++
		b = again(t, b)
		if d, err = parse(b); err != nil {
			t.Fatal(err)
		}
		passes(t, name, b, everyManager(d))
	}
	t.Logf("%d requests and %d real manifests", (len(names)+2)/3, manifests)
}

// TestCorpusParts writes manifests of a part of a slice: each second own node.
func TestCorpusParts(t *testing.T) {
	t.Parallel()
	names, all := requests(t)
	for _, name := range names {
		d, err := parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		managers := everyManager(d)
		r, err := rspec.ParseRequest(all[name], rspec.ReadOptions{Managers: managers})
		if err != nil || len(r.Nodes) < 2 {
			continue
		}
		for rest := range 2 {
			s := generous(read(d, managers), 0)
			for i, n := range r.Nodes {
				if i%2 == rest {
					delete(s.nodes, n.ClientID)
				}
			}
			b, err := rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, w := range first(compare(all[name], b, managers, s)) {
				t.Errorf("%s, part %d: %s", name, rest, w)
			}
		}
	}
}

func first(list []string) []string { return slices.Clone(list[:min(len(list), 3)]) }
