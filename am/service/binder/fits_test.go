package binder

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fitText formats a NodeFit as "pc1 pc2 cpu.count=8 | 4 candidates | cpu.count >= 9 removes 2 | 1 held".
func fitText(f NodeFit) string {
	if f.Refused != "" {
		return "refused: " + f.Refused
	}
	parts := []string{""}
	for _, x := range f.Fits {
		parts[0] += " " + x.Component.Name
		for _, g := range x.Grant.Values {
			parts[0] += fmt.Sprintf(" %s=%s", g.Feature, g.Value)
		}
	}
	parts = append(parts, fmt.Sprint(f.Candidates))
	for _, r := range f.Removals {
		parts = append(parts, fmt.Sprintf("%s removes %d", r.Constraint, r.Removed))
	}
	for _, o := range f.Obstacles {
		parts = append(parts, fmt.Sprintf("%d %s", o.Number, o.Text))
	}
	return strings.TrimSpace(strings.Join(parts, " | "))
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		rule        string
		nodes       []string
		constraints []string
		held        []string
		drain       string
		want        string // of each node
	}{
		{rule: "without constraints, the order of the inventory", nodes: []string{"type=raw-pc"},
			want: "big1 big2 pc1 pc2 gpu1 unknown | 6"},
		{rule: "least left over first", nodes: []string{"type=raw-pc"}, constraints: []string{"cpu.count >= 4"},
			want: "pc1 cpu.count=8 pc2 cpu.count=8 gpu1 cpu.count=8 big1 cpu.count=64 big2 cpu.count=64 | 6 | cpu.count >= 4 removes 1"},
		{rule: "the score before what is left over", nodes: []string{"type=raw-pc"}, constraints: []string{"gpu.count >= 1; 5: cpu.count >= 16"},
			want: "big1 gpu.count=2 cpu.count=64 big2 gpu.count=2 cpu.count=64 gpu1 gpu.count=1 | 6 | gpu.count >= 1 removes 3"},
		{rule: "others by reason", nodes: []string{"type=raw-pc"}, constraints: []string{"cpu.count >= 4; gpu.count <= 1"}, held: []string{"s pc1 raw-pc", "s gpu1 raw-pc~"}, drain: "pc2",
			want: "| 6 | cpu.count >= 4 removes 1 | gpu.count <= 1 removes 2 | 1 held | 1 out of service | 1 being cleaned"},
		{rule: "the values of a shared host", nodes: []string{"type=vm"}, constraints: []string{"cpu.count >= 10"}, held: []string{"s h2 vm!"},
			want: "h1 cpu.count=10 | 2 | 1 held"},
		{rule: "preferences that take too much are left out", nodes: []string{"type=vm group=g", "type=vm group=g"}, constraints: []string{"cpu.count >= 2; 5: cpu.count >= 10", "cpu.count >= 2"},
			want: "h1 cpu.count=10 h2 cpu.count=10 | 2 / h1 cpu.count=2 h2 cpu.count=2 | 2"},
		{rule: "… of all nodes of a host", nodes: []string{"type=vm group=g", "type=vm group=g"}, constraints: []string{"cpu.count >= 2; 5: cpu.count >= 10", "cpu.count >= 7"},
			want: "h1 cpu.count=2 h2 cpu.count=2 | 2 / h1 cpu.count=7 h2 cpu.count=7 | 2"},
		{rule: "no room", nodes: []string{"type=vm"}, constraints: []string{"gpu.count >= 3"},
			want: "| 2 | gpu.count >= 3 removes 2"},
		{rule: "a named component", nodes: []string{"on=pc2"}, want: "pc2 | 1"},
		{rule: "a named component that is held", nodes: []string{"on=pc2"}, held: []string{"s pc2 raw-pc"}, want: "| 1 | 1 held"},
		{rule: "an unknown component", nodes: []string{"on=pc7", "type=orphan"},
			want: "refused: there is no component urn:publicid:IDN+example.org+node+pc7; did you mean urn:publicid:IDN+example.org+node+pc1? / refused: there is no sliver type \"orphan\"; there are raw-pc, vm"},
		{rule: "nodes do not compete", nodes: []string{"type=raw-pc", "type=raw-pc"}, constraints: []string{"gpu.count = 1", "gpu.count = 1"},
			want: "gpu1 gpu.count=1 | 6 | gpu.count = 1 removes 5 / gpu1 gpu.count=1 | 6 | gpu.count = 1 removes 5"},
		{rule: "nodes of one host count together", nodes: []string{"type=vm group=g", "type=vm group=g"}, constraints: []string{"cpu.count >= 9", "cpu.count >= 9"},
			want: "| 2 | 2 full / | 2 | 2 full"},
		{rule: "and follow one that names the host", nodes: []string{"on=h2 group=g", "type=vm group=g"},
			want: "h2 | 1 / h2 | 1"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := holding(site(t, capable), tt.held...)
			if tt.drain != "" {
				x.plan, x.now = planned(t, "drained: [{components: ["+tt.drain+"], text: fan}]\n"), hour(0)
			}
			r := &Request{Request: request(tt.nodes...), Slice: slice("mine")}
			for i, text := range tt.constraints {
				constrain(t, &r.Nodes[i], text)
			}
			list, err := Fits(r, x.now, time.Time{}, x.view())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, f := range list {
				if f.Node != &r.Nodes[i] {
					t.Errorf("the fit %d is of another node", i)
				}
				got = append(got, fitText(f))
			}
			if text := strings.Join(got, " / "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}
