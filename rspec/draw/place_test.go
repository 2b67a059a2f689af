package draw

import (
	"math"
	"slices"
	"testing"
)

func TestGridListsEachBoxOnce(t *testing.T) {
	var g grid
	g.add(box(0, 0, 10*gridCell, 10*gridCell)) // in many cells
	g.add(box(20*gridCell, 0, 21*gridCell, 1))
	g.add(box(5, 5, 3*gridCell, 6))
	everywhere := box(-gridCell, -gridCell, 30*gridCell, 30*gridCell)
	for _, tt := range []struct {
		rule string
		in   rect
		want []int
	}{
		{"everywhere", everywhere, []int{0, 1, 2}},
		{"asked again", everywhere, []int{0, 1, 2}},
		{"a corner", box(1, 1, gridCell*2, 6), []int{0, 2}},
		{"in the cell, not in the rect", box(20*gridCell, 5, 20*gridCell+1, 6), nil},
	} {
		if got := slices.Sorted(g.overlapping(tt.in)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.rule, got, tt.want)
		}
		if hit := g.overlapsAny(tt.in); hit != (tt.want != nil) {
			t.Errorf("%s: hits is %v", tt.rule, hit)
		}
	}
}

// TestSeparatingEnds has boxes that no movement can separate.
func TestSeparatingEnds(t *testing.T) {
	a := &arrangement{blocks: []*block{{}, {}}, need: map[[2]int]point{}}
	for _, b := range a.blocks {
		b.hw, b.hh = 10, 10
	}
	at := []point{{math.NaN(), 0}, {0, 0}}
	a.separate([]int{0, 1}, at, 1) // is back
	at = []point{{0, 0}, {1, 0}}
	if a.separate([]int{0, 1}, at, 1); math.Abs(at[0].x-at[1].x) < 20+clearance {
		t.Errorf("still too near: %v", at)
	}
}
