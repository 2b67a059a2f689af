package site

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/am/work"
	"patchbay/inventory"
)

// TestBlockedComponent checks which orphans keep new slivers off a component.
func TestBlockedComponent(t *testing.T) {
	inv, err := inventory.Parse(inventory.SimulatedText("testbed.example.org"), "inventory.yaml", "testbed.example.org")
	if err != nil {
		t.Fatal(err)
	}
	const uuid = "00000001-1111-4222-8333-444444444444"
	urnOf := func(site string) string { return "urn:publicid:IDN+" + site + "+sliver+" + uuid }
	for _, tt := range []struct {
		rule string
		u    work.Orphan
		want bool
	}{
		{"anything on an exclusive node", work.Orphan{Provider: "simulated", Name: "operators-own", Component: "pc1"}, true},
		{"another site's on an exclusive node", work.Orphan{Provider: "simulated", Name: uuid, Component: "pc1", Sliver: urnOf("other.example.org")}, true},
		{"a name like ours on what many share", work.Orphan{Provider: "simulated", Name: uuid, Component: "vm1"}, true},
		{"one that tells that it is ours", work.Orphan{Provider: "simulated", Name: uuid, Component: "vm1", Sliver: urnOf("TESTBED.example.org")}, true},
		{"another site's on what many share", work.Orphan{Provider: "simulated", Name: uuid, Component: "vm1", Sliver: urnOf("other.example.org")}, false},
		{"a name that is none of ours on what many share", work.Orphan{Provider: "simulated", Name: "operators-own", Component: "vm1"}, false},
		{"no component is named", work.Orphan{Provider: "simulated", Name: uuid}, false},
		{"a component that is not there", work.Orphan{Provider: "simulated", Name: uuid, Component: "nowhere"}, false},
		{"a component of another provider", work.Orphan{Provider: "other", Name: uuid, Component: "pc1"}, false},
	} {
		if c, ok := blockedComponent(&tt.u, inv); ok != tt.want || ok && c.Name != tt.u.Component {
			t.Errorf("%s: %v", tt.rule, ok)
		}
	}
}

// TestOrphanOrdersRefused checks that wrong orders are refused with a reason.
func TestOrphanOrdersRefused(t *testing.T) {
	s := &Site{runner: work.New(work.Config{})}
	many := `"x"` + strings.Repeat(`,"x"`, maxOrphanNames)
	for _, tt := range []struct{ order, want string }{
		{"", "EOF"},
		{"[", "EOF"},
		{`{"Resource":["x"]}`, "unknown field"},
		{`{"Operator":"root","Resources":["x"]}{}`, "there is text after it"},
		{`{"Operator":"root","Resources":["x"],"Resources":["y"]}`, "twice"},
		{`{"Operator":"root"}`, "names 0 resources"},
		{`{"Operator":"root","Resources":[` + many + `]}`, "name 1 to 100"},
		{`{"Resources":["x"]}`, "operator's name"},
		{`{"Operator":"` + strings.Repeat("x", 257) + `","Resources":["x"]}`, "operator's name"},
		{`{"Operator":"root","Resources":["x"],"Text":"a\nb"}`, "one line"},
		{`{"Operator":"root","Resources":["` + strings.Repeat("x", 1000) + `"]}`, "nothing was removed. To list orphans: patchbay nodes --orphans"},
		{strings.Repeat(" ", maxOrphanOrder+1), "too large"},
	} {
		w := httptest.NewRecorder()
		s.releaseOrphans(w, httptest.NewRequest("POST", "/orphans", strings.NewReader(tt.order)))
		status := http.StatusUnprocessableEntity
		if strings.HasPrefix(w.Body.String(), "the order cannot be read") {
			status = http.StatusBadRequest
		}
		if w.Code != status || !strings.Contains(w.Body.String(), tt.want) || w.Body.Len() > 1000 {
			t.Errorf("%.60q: %d %s", tt.order, w.Code, w.Body)
		}
	}
}
