package draw

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/rspec/view"
)

// faultsOf returns all faults of a drawing.
func faultsOf(s *scene) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	name := func(i int) string { return s.vertices[i].lines[0].text }
	canvas := s.size.grown(0.01)
	inside := func(r rect) bool {
		return r.left() >= canvas.left() && r.right() <= canvas.right() && r.top() >= canvas.top() && r.bottom() <= canvas.bottom()
	}
	boxes := make([]rect, len(s.vertices))
	for i := range s.vertices {
		boxes[i] = s.vertices[i].rect
		if math.IsNaN(boxes[i].x + boxes[i].y) {
			say("%s has no place", name(i))
		}
		if !inside(boxes[i]) {
			say("%s leaves the canvas", name(i))
		}
		for j := range i {
			if boxes[i].grown(-0.01).overlaps(boxes[j]) {
				say("%s lies on %s", name(i), name(j))
			}
		}
		for f, frame := range s.frames {
			if !s.framed || frame.hw == 0 {
				continue
			}
			within := frame.left() < boxes[i].left() && frame.right() > boxes[i].right() && frame.top() < boxes[i].top() && frame.bottom() > boxes[i].bottom()
			if own := s.vertices[i].frame == f; own && !within {
				say("%s is not in its frame", name(i))
			} else if !own && frame.overlaps(boxes[i]) {
				say("%s is in the frame of another manager", name(i))
			}
		}
		for _, l := range s.vertices[i].lines {
			room := boxes[i].hw * 2
			if i := l.font.width(l.text); i > room {
				say("the text %q is wider than its box", l.text)
			}
		}
	}
	for i, l := range s.labels {
		if !inside(l.rect) {
			say("the label %q leaves the canvas", l.lines)
		}
		for j := range boxes {
			if l.overlaps(boxes[j]) {
				say("the label %q lies on %s", l.lines, name(j))
			}
		}
		for _, m := range s.labels[:i] {
			if l.overlaps(m.rect) {
				say("the labels %q and %q lie on each other", l.lines, m.lines)
			}
		}
	}
	for i := range s.edges {
		e := &s.edges[i]
		if len(e.path) < 2 {
			say("the line %s–%s has no path", name(e.from), name(e.to))
		}
		for k := 1; k < len(e.path); k++ {
			p, q := e.path[k-1].add(s.shift), e.path[k].add(s.shift)
			for j := range boxes {
				if j != e.from && j != e.to && boxes[j].cuts(p, q) {
					say("the line %s–%s crosses %s", name(e.from), name(e.to), name(j))
				}
			}
		}
		for _, f := range s.edges[:i] {
			if e.drawn == f.drawn && e.stub == 0 {
				say("two lines %s–%s lie on each other", name(e.from), name(e.to))
			}
		}
	}
	return list
}

func TestFormsAreDrawnWell(t *testing.T) {
	for name, p := range topologies() {
		t.Run(name, func(t *testing.T) {
			s := drawn(p)
			for _, f := range faultsOf(s) {
				t.Error(f)
			}
			if most := 0.3 * float64(len(s.labels)); float64(s.unplaced) > most && s.unplaced > 2 {
				t.Errorf("%d labels left out, %d placed", s.unplaced, len(s.labels))
			}
			svg := svgOf(t, p)
			if err := checkSVG(svg); err != nil {
				t.Error(err)
			}
			text := textOf(t, p, TextOptions{Width: 120})
			for _, n := range p.Nodes {
				if !strings.Contains(svg, "<title>"+n.Name+"&#xA;") {
					t.Errorf("%s is not in the drawing", n.Name)
				}
				if !strings.Contains(text, n.Name) {
					t.Errorf("%s is not in the text", n.Name)
				}
			}
			for _, l := range p.Links {
				if !strings.Contains(svg, l.Name) {
					t.Errorf("%s is not in the drawing", l.Name)
				}
				if !strings.Contains(text, l.Name) {
					t.Errorf("%s is not in the text", l.Name)
				}
			}
			if svg != svgOf(t, p) {
				t.Error("drawn twice it is not the same")
			}
		})
	}
}

// TestParallelLinksPassBesideAHub proves that lines which only pass by a LAN
// keep away from its box, and so do their labels.
func TestParallelLinksPassBesideAHub(t *testing.T) {
	w := network(12, 1)
	for i := range 12 {
		w.link(i, (i+1)%12)
	}
	w.link(0, 6)
	w.link(0, 6)
	w.link(0, 3, 6, 9)
	s := drawn(&w.d)
	for _, f := range faultsOf(s) {
		t.Error(f)
	}
	hub := s.vertices[len(s.vertices)-1]
	if hub.shape != hubShape {
		t.Fatal("the last box is no hub")
	}
	for i := range s.edges {
		e := &s.edges[i]
		if s.vertices[e.to].shape == hubShape {
			continue
		}
		for k := 1; k < len(e.path); k++ {
			if hub.grown(hubGap-1).cuts(e.path[k-1].add(s.shift), e.path[k].add(s.shift)) {
				t.Errorf("%q passes too near", e.middle)
			}
		}
	}
	for _, l := range s.labels {
		if l.grown(4).overlaps(hub.rect) {
			t.Errorf("the label %q touches the hub", l.lines)
		}
	}
}

func TestRandomNetworksAreDrawnWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "nodes")
		w := network(n, rapid.IntRange(1, 4).Draw(t, "managers"))
		for range rapid.IntRange(0, n*3/2).Draw(t, "links") {
			ends := 2
			if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
				ends = rapid.IntRange(0, 9).Draw(t, "ends")
			}
			nodes := make([]int, ends)
			for k := range nodes {
				if nodes[k] = rapid.IntRange(0, n-1).Draw(t, "end"); rapid.IntRange(0, 60).Draw(t, "dangling") == 0 {
					nodes[k] = -1
				}
			}
			l := w.link(nodes...)
			if rapid.Bool().Draw(t, "properties") {
				l.Properties = []view.Property{{Capacity: "100 Mbit/s", Latency: "10 ms"}}
			}
		}
		for _, f := range faultsOf(drawn(&w.d)) {
			t.Error(f)
		}
		if err := checkSVG(svgOf(t, &w.d)); err != nil {
			t.Error(err)
		}
	})
}
