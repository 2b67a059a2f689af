package importad

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/binder"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/schemas/xmltree"
)

// surveyed is what was made of one manager's part of an advertisement of the corpus.
type surveyed struct {
	file string
	ids  []string // component_ids of the manager's nodes, as they are written
	inv  *inventory.Inventory
}

// corpus surveys all advertisements that there are, manager by manager.
func corpus(t *testing.T) (list []surveyed) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "rspecs", "ad"), "*.xml"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no advertisements")
	}
	refused := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string][]string{"": nil}
		if ad, err := read(text); err == nil {
			for _, n := range ad.nodes {
				if u, ok := managerOf(n); ok {
					ids[u.Authority] = append(ids[u.Authority], n.id)
					delete(ids, "")
				}
			}
		}
		for authority := range ids {
			s, err := Read(text, Options{Authority: authority, File: filepath.Base(file)})
			if err == nil {
				list = append(list, surveyed{filepath.Base(file), ids[authority], load(t, s)})
				continue
			}
			why := ""
			for _, known := range []string{"has no nodes", "namespace", "names its manager by a URN", "no node has a component_id"} {
				if strings.Contains(err.Error(), known) {
					why = known
				}
			}
			if refused[why]++; why == "" {
				t.Errorf("%s, %s: %v", filepath.Base(file), authority, err)
			}
		}
	}
	t.Logf("%d advertisements make %d inventories; refused: %v", len(files), len(list), refused)
	return list
}

// TestCorpusAdvertisementsAreKept has our own advertisement of each inventory show
// every component_id that it was made of.
func TestCorpusAdvertisementsAreKept(t *testing.T) {
	nodes, left := 0, 0
	for _, x := range corpus(t) {
		shown := advertised(t, x.inv)
		for _, id := range x.ids {
			u, err := urn.Parse(id)
			if err != nil || u.Type != urn.Node {
				left++
				continue
			}
			if nodes++; !shown[u.Key()] {
				t.Errorf("%s: %s is not advertised", x.file, id)
			}
		}
	}
	t.Logf("%d component_ids are kept, %d are no URNs of nodes", nodes, left)
	if nodes == 0 {
		t.Error("nothing was compared")
	}
}

// advertise is the advertisement of a site of inv.
func advertise(t *testing.T, inv *inventory.Inventory) []byte {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	inForce := &atomic.Pointer[inventory.Inventory]{}
	inForce.Store(inv)
	ad, err := service.New(service.Config{Store: st, Inventory: inForce, Leases: service.DefaultLeases}).AppendAdvertisement(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return ad
}

// advertised are the keys of the component_ids that a site of inv advertises.
func advertised(t *testing.T, inv *inventory.Inventory) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	err := xmltree.Parse(advertise(t, inv), readLimits, func(d *xmltree.Doc) error {
		for _, e := range d.Root.Elements() {
			if u, err := urn.Parse(attr(e, "component_id")); err == nil && e.Local == "node" {
				shown[u.Key()] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// TestCorpusRequestsStillBind has requests that name a component of a manager get
// that very component of the inventory that was made of its advertisement.
func TestCorpusRequestsStillBind(t *testing.T) {
	all := corpus(t)
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "rspecs", "request"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	pairs, bound := 0, 0
	var refused []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range all {
			if !strings.Contains(string(text), x.inv.Authority) {
				continue
			}
			r, err := rspec.ParseRequest(text, rspec.ReadOptions{Managers: append([]urn.URN{x.inv.Manager}, x.inv.Managers...), CopyCrossLinks: true})
			if err != nil || !slices.ContainsFunc(r.Nodes, func(n rspec.Node) bool { _, ok := x.inv.Component(n.Component); return ok }) {
				continue
			}
			pairs++
			what, err := binder.Bind(&binder.Request{Request: r, Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+s")}, time.Time{}, time.Time{}, &binder.View{Inventory: x.inv})
			if err != nil {
				refused = append(refused, filepath.Base(file)+" on "+x.file+": "+err.Error())
				continue
			}
			for _, b := range what.Nodes {
				if b.Node.ComponentID == "" {
					continue
				}
				if bound++; !b.Component.URN.Equal(b.Node.Component) {
					t.Errorf("%s asks for %s and gets %s", filepath.Base(file), b.Node.ComponentID, b.Component.URN)
				}
			}
		}
	}
	t.Logf("%d requests meet an inventory that has what they name; %d nodes get the component they name; refused: %d", pairs, bound, len(refused))
	for _, r := range refused {
		t.Log(r)
	}
	if bound == 0 {
		t.Error("nothing was bound")
	}
}
