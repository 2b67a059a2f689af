package draw

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/rspec/view"
)

func TestComponentsOfOneKindAreOneBox(t *testing.T) {
	w := network(20, 1)
	w.d.Kind = view.Advertisement
	free, taken := true, false
	for i := range w.d.Nodes {
		w.d.Nodes[i].Name = fmt.Sprintf("pc%d", i+1)
		w.d.Nodes[i].Available = &free
		if i%10 == 4 {
			w.d.Nodes[i].Available = &taken
		}
	}
	svg := svgOf(t, &w.d)
	for _, want := range []string{">pc1…pc20<", ">20 × raw-pc<", ">18 free<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%q is missing in the drawing", want)
		}
	}
	if text := textOf(t, &w.d, TextOptions{}); !strings.Contains(text, "pc1…pc20   20 ×   raw-pc") {
		t.Errorf("the text does not tell of the group:\n%s", text)
	}
	w.link(3, 7) // now two of them differ
	if n := len(groupNodes(&w.d)); n != 3 {
		t.Errorf("%d boxes, want 3", n)
	}
}

func TestEveryNodeIsInOneGroup(t *testing.T) {
	for _, n := range []int{1, maxBoxes, maxBoxes + 1, 5000} {
		for _, managers := range []int{1, 300, 5000} {
			w := network(n, min(n, managers))
			w.d.Nodes[0].SliverTypes = nil
			groups := groupNodes(&w.d)
			if len(groups) > maxBoxes {
				t.Errorf("%d nodes of %d managers: %d boxes", n, managers, len(groups))
			}
			var all []int
			for _, g := range groups {
				all = append(all, g.nodes...)
			}
			slices.Sort(all)
			if !slices.Equal(all, upTo(n)) {
				t.Errorf("%d nodes of %d managers: %d are in groups", n, managers, len(all))
			}
			if err := checkSVG(svgOf(t, &w.d)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPeopleCountSo(t *testing.T) {
	names := []string{"pc10", "pc2", "pc02x", "pc", "a1b3", "a1b20", ""}
	slices.SortStableFunc(names, compareNatural)
	if got, want := strings.Join(names, " "), " a1b3 a1b20 pc pc2 pc02x pc10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTooMuchIsCountedNotDrawn(t *testing.T) {
	w := network(500, 1)
	for i := range 900 {
		w.link(i%500, (i*7+1)%500, (i*13+2)%500)
	}
	for i := range 6000 {
		w.link(i%500, (i*11+3)%500)
	}
	s := drawn(&w.d)
	if len(s.vertices) > 3*maxBoxes || len(s.edges) > maxEdges {
		t.Errorf("%d boxes, %d lines", len(s.vertices), len(s.edges))
	}
	if text := textOf(t, &w.d, TextOptions{}); strings.Count(text, "\n") > 4*maxLinkLines {
		t.Errorf("the text has %d lines", strings.Count(text, "\n"))
	}
}
