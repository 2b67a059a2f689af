package binder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/rspec"
)

const oneHost = `
provider: local
default_sliver_type: container
shared_vlans: [{name: exchange, tag: 1750}]
sliver_types: [{name: container}]
components: [{name: host1, exclusive: false, capacity: {slots: 1000}}]
`

// wish is a property of a request; the sides are client_ids, "" for all others.
func wish(source, dest string, capacity int64, ms float64, loss float64) rspec.Property {
	return rspec.Property{Source: source, Dest: dest, Capacity: capacity, Latency: time.Duration(ms * float64(time.Millisecond)), Loss: loss}
}

// leaving are the properties of the interfaces of a link, as text.
func leaving(t *testing.T, shared bool, ends string, wishes ...rspec.Property) []string {
	t.Helper()
	link := "lan " + ends
	if shared {
		link += " shared=exchange"
	}
	nodes := make([]string, len(strings.Fields(ends)))
	r := linked(request(nodes...), link)
	r.Links[0].Properties = wishes
	b, err := bind(r, holding(site(t, oneHost)), slice("s"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, n := range b.Nodes {
		for _, i := range n.Interfaces {
			for _, p := range i.Properties {
				s := i.ClientID + ">" + strings.Join(p.To, ",")
				if p.Capacity != 0 {
					s += fmt.Sprintf(" %dk", p.Capacity)
				}
				if p.Latency != 0 {
					s += " " + p.Latency.String()
				}
				if p.Loss != 0 {
					s += fmt.Sprintf(" %v%%", p.Loss)
				}
				all = append(all, s)
			}
		}
	}
	return all
}

func TestPropertiesOfSendingInterfaces(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		shared bool
		ends   string
		wishes []rspec.Property
		want   []string
	}{
		{"nothing asked", false, "a:0 b:0", nil, nil},
		{"each direction alone", false, "a:0 b:0", []rspec.Property{wish("a:0", "b:0", 10_000, 12.5, 0.015), wish("b:0", "a:0", 500, 0, 0)}, []string{"a:0> 10000k 12.5ms 1.5%", "b:0> 500k"}},
		{"one direction", false, "a:0 b:0", []rspec.Property{wish("a:0", "b:0", 0, 1, 0)}, []string{"a:0> 1ms"}},
		{"pairs of a LAN that are alike", false, "a:0 b:0 c:0", []rspec.Property{wish("a:0", "b:0", 5, 0, 0), wish("a:0", "c:0", 5, 0, 0)}, []string{"a:0> 5k"}},
		{"pairs of a LAN that differ", false, "a:0 b:0 c:0 d:0", []rspec.Property{wish("a:0", "b:0", 5, 0, 0), wish("a:0", "c:0", 6, 0, 0), wish("a:0", "d:0", 6, 0, 0)}, []string{"a:0> 6k", "a:0>b:0 5k"}},
		{"a pair of a LAN", false, "a:0 b:0 c:0", []rspec.Property{wish("a:0", "c:0", 5, 0, 0)}, []string{"a:0>c:0 5k"}},
		{"into the LAN", false, "a:0 b:0 c:0", []rspec.Property{wish("b:0", "", 5, 0, 0)}, []string{"b:0> 5k"}},
		{"out of the LAN", false, "a:0 b:0 c:0", []rspec.Property{wish("", "b:0", 5, 0, 0)}, []string{"a:0>b:0 5k", "c:0>b:0 5k"}},
		{"into it and out of it alike", false, "a:0 b:0 c:0", []rspec.Property{
			wish("a:0", "", 5, 2, 0), wish("", "a:0", 5, 2, 0), wish("b:0", "", 5, 2, 0), wish("", "b:0", 5, 2, 0), wish("c:0", "", 5, 2, 0), wish("", "c:0", 5, 2, 0),
		}, []string{"a:0> 5k 2ms", "b:0> 5k 2ms", "c:0> 5k 2ms"}},
		{"of into and out of it what asks for more", false, "a:0 b:0", []rspec.Property{wish("a:0", "", 5, 2, 0.03), wish("", "b:0", 9, 7, 0.02)}, []string{"a:0> 5k 7ms 3%"}},
		{"a pair before into and out of it, each property alone", false, "a:0 b:0 c:0", []rspec.Property{wish("a:0", "", 5, 2, 0), wish("", "b:0", 9, 7, 0), wish("a:0", "b:0", 50, 0, 0)}, []string{"a:0> 50k 7ms", "a:0>c:0 5k 2ms", "c:0>b:0 9k 7ms"}},
		{"a LAN of one", false, "a:0", []rspec.Property{wish("a:0", "", 5, 0, 0)}, nil},
		{"others of a shared VLAN", true, "a:0 b:0", []rspec.Property{wish("a:0", "", 5, 0, 0), wish("b:0", "a:0", 6, 0, 0)}, []string{"a:0> 5k", "b:0>a:0 6k"}},
		{"a shared VLAN of one", true, "a:0", []rspec.Property{wish("a:0", "", 5, 0, 0)}, []string{"a:0> 5k"}},
		{"an interface of another link", false, "a:0 b:0", []rspec.Property{wish("a:0", "x", 5, 0, 0), wish("x", "b:0", 5, 0, 0)}, nil},
	} {
		if diff := cmp.Diff(tt.want, leaving(t, tt.shared, tt.ends, tt.wishes...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
		}
	}
}

func TestPacketLossKeepsItsDigits(t *testing.T) {
	for n := range 100_001 {
		want := float64(n) / 1000
		if got := percent(want / 100); got != want {
			t.Fatalf("%v %% became %v", want, got)
		}
	}
}

func TestASharedVLANNeedsNoPhysicalLink(t *testing.T) {
	b, err := bind(linked(request("", ""), "lan a:0 b:0 shared=exchange"), holding(site(t, oneHost)), slice("s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range b.Nodes {
		if i := n.Interfaces[0]; i.SharedVLAN != "exchange" || !i.Component.IsZero() {
			t.Errorf("got %+v", i)
		}
	}
}

// TestOneEndOfASharedVLANIsShaped checks that the name of a link stands for the ends of other
// slices, and that their traffic is not shaped.
func TestOneEndOfASharedVLANIsShaped(t *testing.T) {
	r := bigLAN(1)
	r.Links[0].SharedVLAN = "exchange"
	own := r.Links[0].Interfaces[0]
	r.Links[0].Properties = []rspec.Property{{Source: own, Capacity: 1000}, {Dest: own, Latency: time.Millisecond}}
	b, err := bind(r, holding(site(t, oneHost)), slice("s"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]am.Property{{Capacity: 1000}}, b.Nodes[0].Interfaces[0].Properties); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// bigLAN is a LAN of n interfaces.
func bigLAN(n int) *rspec.Request {
	r := lan(n, "container", 0)
	r.Links[0].Properties = nil
	return r
}

func TestTooManyDifferentProperties(t *testing.T) {
	x := holding(site(t, oneHost))
	fill := func(r *rspec.Request, f func(from, to int) (rspec.Property, bool)) *rspec.Request {
		l := &r.Links[0]
		for i, from := range l.Interfaces {
			for j, to := range l.Interfaces {
				if p, ok := f(i, j); ok && i != j {
					p.Source, p.Dest = from, to
					l.Properties = append(l.Properties, p)
				}
			}
		}
		return r
	}
	toLAN := func(n int) *rspec.Request {
		r := bigLAN(n)
		for i, id := range r.Links[0].Interfaces {
			r.Links[0].Properties = append(r.Links[0].Properties, wish("", id, int64(i+1), 0, 0))
		}
		return r
	}
	for _, tt := range []struct {
		rule string
		r    *rspec.Request
		text string // of the refusal; none
	}{
		{"as many as there may be", fill(bigLAN(maxProperties+1), func(i, j int) (rspec.Property, bool) { return wish("", "", int64(j+1), 0, 0), i == 0 }), ""},
		{"one more", fill(bigLAN(maxProperties+2), func(i, j int) (rspec.Property, bool) { return wish("", "", int64(j+1), 0, 0), i == 0 }), "too many different properties"},
		{"each as it arrives", toLAN(maxProperties - 10), ""},
		{"each as it arrives, and all together too much", toLAN(maxProperties + 1), "have more than"},
		{"each as it arrives, and too much for one", toLAN(maxProperties + 2), "too many different properties"},
		{"the square of many", toLAN(600), "its properties differ at 600"},
	} {
		_, err := bind(tt.r, x, slice("s"))
		var e *UnsatisfiedError
		switch {
		case tt.text == "" && err != nil:
			t.Errorf("%s: %v", tt.rule, err)
		case tt.text != "" && (!errors.As(err, &e) || e.Reasons[0].Code != am.TooBig || !strings.Contains(err.Error(), tt.text)):
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.text)
		}
	}
}

// TestPropertiesModel draws links and compares each pair with its properties, searched one by
// one.
func TestPropertiesModel(t *testing.T) {
	x := holding(site(t, oneHost))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "ends")
		shared := rapid.Bool().Draw(t, "shared")
		r := bigLAN(n)
		l := &r.Links[0]
		if shared {
			l.SharedVLAN = "exchange"
		}
		sides := append([]string{""}, l.Interfaces...)
		asked := map[[2]string]quality{}
		for range rapid.IntRange(0, 2*n*n).Draw(t, "properties") {
			side := rapid.SampledFrom(sides)
			d := [2]string{side.Draw(t, "source"), side.Draw(t, "dest")}
			q := quality{int64(rapid.IntRange(0, 2).Draw(t, "capacity")), time.Duration(rapid.IntRange(0, 2).Draw(t, "latency")), float64(rapid.IntRange(0, 1).Draw(t, "loss"))}
			if _, twice := asked[d]; twice || d[0] == d[1] || q == (quality{}) {
				continue
			}
			asked[d] = q
			l.Properties = append(l.Properties, rspec.Property{Source: d[0], Dest: d[1], Capacity: q.capacity, Latency: q.latency, Loss: q.loss / 100})
		}
		b, err := bind(r, x, slice("s"))
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range b.Nodes {
			in := node.Interfaces[0]
			wide, some := 0, map[string]bool{}
			for _, p := range in.Properties {
				if len(p.To) == 0 {
					wide++
				}
				for _, to := range p.To {
					if some[to] || to == in.ClientID || !slices.Contains(l.Interfaces, to) {
						t.Fatalf("%s: names %s twice, or it is none of the others", in.ClientID, to)
					}
					some[to] = true
				}
				if p.Capacity == 0 && p.Latency == 0 && p.Loss == 0 {
					t.Fatalf("%s: a property is empty", in.ClientID)
				}
			}
			if wide > 1 {
				t.Fatalf("%s: %d properties towards all others", in.ClientID, wide)
			}
			for _, to := range append(l.Interfaces, "elsewhere") {
				if to == in.ClientID || to == "elsewhere" && !shared {
					continue
				}
				pair := asked[[2]string{in.ClientID, to}]
				out, arriving := asked[[2]string{in.ClientID, ""}], asked[[2]string{"", to}]
				want := quality{latency: max(out.latency, arriving.latency), loss: max(out.loss, arriving.loss), capacity: min(out.capacity, arriving.capacity)}
				if want.capacity == 0 {
					want.capacity = max(out.capacity, arriving.capacity)
				}
				if pair.capacity != 0 {
					want.capacity = pair.capacity
				}
				if pair.latency != 0 {
					want.latency = pair.latency
				}
				if pair.loss != 0 {
					want.loss = pair.loss
				}
				var got quality
				for _, p := range in.Properties {
					if slices.Contains(p.To, to) || len(p.To) == 0 && !some[to] {
						got = quality{p.Capacity, p.Latency, p.Loss}
					}
				}
				if got != want {
					t.Fatalf("from %s to %s: %v, want %v, of %v", in.ClientID, to, got, want, in.Properties)
				}
			}
		}
	})
}
