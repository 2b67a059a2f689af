package fabric

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/inventory/provider/local/vswitch"
)

var (
	everything = Features{TBF: true, Netem: true, VSwitch: true}
	noNetem    = Features{TBF: true, VSwitch: true}
	onlyTBF    = Features{TBF: true}
	nothing    = Features{Missing: map[string]string{"tbf": "no tbf", "netem": "no netem", "vswitch": "no TUN"}}
)

const a, b, c = "node1/0", "node2/0", "node3/0"

// ends returns the names of the ends of a lan.
func ends(n int) (names []string) {
	for _, e := range lan("s1", n).Ends {
		names = append(names, e.ID)
	}
	return names
}

func TestEmulatorOfLink(t *testing.T) {
	all := func(s Shape) []Shape { return []Shape{s} }
	for _, tc := range []struct {
		name   string
		can    Features
		forced string
		n      int
		shapes []Shape
		want   string // the emulator, or the refused property
		reason string // a part of the reason
	}{
		{"NothingAsked", nothing, Auto, 3, nil, "bridge", ""},
		{"NothingAskedOfZeros", nothing, Auto, 3, all(Shape{}), "bridge", ""},
		{"CapacityByPort", everything, Auto, 3, all(Shape{Rate: 1000}), "bridge+tbf", ""},
		{"CapacityOfOneDirection", everything, Auto, 2, all(Shape{From: []string{a}, Rate: 1000}), "bridge+tbf", ""},
		{"CapacityWithoutTBF", nothing, Auto, 2, all(Shape{Rate: 1000}), "capacity", "no tbf; load the module sch_tbf"},
		{"LatencyByNetem", everything, Auto, 3, all(Shape{Delay: 1}), "bridge+netem", ""},
		{"AllByNetem", everything, Auto, 3, all(Shape{Delay: 1, Loss: 0.1, Rate: 1}), "bridge+tbf+netem", ""},
		{"LatencyWithoutNetem", noNetem, Auto, 3, all(Shape{Delay: 1}), "vswitch", ""},
		{"AllWithoutNetem", noNetem, Auto, 3, all(Shape{Delay: 1, Loss: 0.1, Rate: 1}), "tbf+vswitch", ""},
		{"PairsThatDiffer", everything, Auto, 3, all(Shape{From: []string{a}, To: []string{b}, Delay: 1}), "vswitch", ""},
		{"PairsThatDifferOfTwoEnds", everything, Auto, 2, all(Shape{From: []string{a}, To: []string{b}, Delay: 1}), "bridge+netem", ""},
		{"CapacityOfPairs", everything, Auto, 3, all(Shape{From: []string{a}, To: []string{b}, Rate: 1}), "vswitch", ""},
		{"LatencyOfPairsWithCapacityByPort", everything, Auto, 3, []Shape{{From: []string{a}, To: []string{b}, Delay: 1}, {Rate: 5}}, "tbf+vswitch", ""},
		{"LatencyWithNothing", nothing, Auto, 3, all(Shape{Delay: 1}), "latency", "no netem, and no TUN; load the module sch_netem or tun"},
		{"LossWithNothing", nothing, Auto, 3, all(Shape{Loss: 0.1}), "packet_loss", "no netem, and no TUN"},
		{"LossOfPairsWithTBFOnly", onlyTBF, Auto, 3, all(Shape{From: []string{a}, To: []string{b}, Loss: 0.1}), "packet_loss", "cannot shape pairs of interfaces separately"},
		{"CapacityOfPairsWithTBFOnly", onlyTBF, Auto, 3, all(Shape{From: []string{a}, To: []string{b}, Rate: 1}), "capacity", "cannot shape pairs of interfaces separately"},

		{"NetemForced", everything, Netem, 2, all(Shape{Loss: 0.1}), "bridge+netem", ""},
		{"NetemForcedWithoutIt", noNetem, Netem, 2, all(Shape{Loss: 0.1}), "packet_loss", "set emulator: auto"},
		{"NetemForcedForPairs", everything, Netem, 3, all(Shape{From: []string{a}, To: []string{b}, Delay: 1}), "latency", "set emulator: auto"},
		{"NetemForcedForCapacity", noNetem, Netem, 2, all(Shape{Rate: 1}), "bridge+tbf", ""},
		{"VSwitchForced", everything, VSwitch, 2, all(Shape{Loss: 0.1}), "vswitch", ""},
		{"VSwitchForcedForCapacity", everything, VSwitch, 2, all(Shape{Rate: 1}), "tbf+vswitch", ""},
		{"VSwitchForcedForNothing", nothing, VSwitch, 2, nil, "bridge", ""},
		{"VSwitchForcedWithoutIt", onlyTBF, VSwitch, 2, all(Shape{Loss: 0.1}), "packet_loss", "load the module tun"},

		{"APairOfItsOwn", everything, Auto, 3, []Shape{{Delay: 1}, {From: []string{a}, To: []string{b}, Only: true}}, "vswitch", ""},
		{"SoManyPairs", everything, Auto, 1000, slices.Repeat(all(Shape{From: ends(1000), To: ends(1000)}), 2), "different properties for so many pairs", "split the link"},
		{"OneEnd", nothing, Auto, 1, all(Shape{Rate: 1, Delay: 1}), "bridge", ""},
		{"TooManyEnds", everything, Auto, 1001, nil, "so many interfaces", "1000"},
		{"MostEnds", everything, Auto, 1000, all(Shape{Rate: 1}), "bridge+tbf", ""},
		{"NegativeRate", everything, Auto, 2, all(Shape{Rate: -1}), "capacity", "-1 kbit/s"},
		{"AbsurdRate", everything, Auto, 2, all(Shape{Rate: 100_000_001}), "capacity", "100 Gbit/s"},
		{"LongestDelay", everything, Auto, 2, all(Shape{Delay: time.Minute}), "bridge+netem", ""},
		{"AbsurdDelay", everything, Auto, 2, all(Shape{Delay: time.Minute + 1}), "latency", "1m0s"},
		{"NegativeDelay", everything, Auto, 2, all(Shape{Delay: -1}), "latency", "not between"},
		{"AbsurdLoss", everything, Auto, 2, all(Shape{Loss: 1.01}), "packet_loss", "101 %"},
		{"LossThatIsNoNumber", everything, Auto, 2, all(Shape{Loss: math.NaN()}), "packet_loss", "NaN"},
		{"NegativeLoss", everything, Auto, 2, all(Shape{Loss: -0.1}), "packet_loss", "-10 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := lan("s1", tc.n, tc.shapes...)
			h := &Host{options: Options{Emulator: tc.forced}, features: tc.can}
			err := h.CheckLink(l)
			var u *UnsupportedError
			if errors.As(err, &u) {
				if u.Property != tc.want || tc.reason == "" || !strings.Contains(u.Error(), tc.reason) {
					t.Errorf("refused: %v\nwant %q: … %s …", u, tc.want, tc.reason)
				}
				if strings.Contains(u.Reason, "module") || strings.Contains(u.Reason, "emulator") {
					t.Errorf("those who ask cannot do that: %s", u.Reason)
				}
				return
			}
			must(t, err)
			p, err := decide(l, tc.can, tc.forced)
			if err != nil || p.emulator != tc.want || tc.reason != "" {
				t.Errorf("the means are %q, %v; want %q", p.emulator, err, tc.want)
			}
		})
	}
}

func TestPathsAreLimited(t *testing.T) {
	pairs := func(n int, s Shape) Link {
		l := lan("s1", n)
		for i := range n {
			for j := range n {
				if i != j {
					s := s
					s.From, s.To = []string{l.Ends[i].ID}, []string{l.Ends[j].ID}
					s.Rate *= int64(1 + i)
					s.Delay *= time.Duration(1 + j*n + i)
					l.Shapes = append(l.Shapes, s)
				}
			}
		}
		return l
	}
	for _, tc := range []struct {
		n  int
		s  Shape
		ok bool
	}{{64, Shape{Rate: 1}, true}, {65, Shape{Rate: 1}, false}, {65, Shape{Delay: 1}, false}, {65, Shape{Loss: 0.1}, true}} {
		_, err := decide(pairs(tc.n, tc.s), noNetem, Auto)
		if (err == nil) != tc.ok {
			t.Errorf("%d ends, %+v: %v", tc.n, tc.s, err)
		}
		if err != nil && !strings.Contains(err.Error(), "4096 pairs") {
			t.Errorf("%d ends: %v", tc.n, err)
		}
	}
}

func TestPaths(t *testing.T) {
	ms := time.Millisecond
	from := func(ids ...string) []string { return ids }
	for _, tc := range []struct {
		name   string
		shapes []Shape
		shared bool
		want   []vswitch.Path
		ports  []int64 // kbit/s of tbf
	}{
		{"SpecificFirst", []Shape{{From: from(a), To: from(b), Delay: 3 * ms}, {From: from(a), Delay: 2 * ms, Loss: 0.1}, {Delay: ms}}, false, []vswitch.Path{
			{From: from(a), To: from(b), Delay: 3 * ms, Loss: 0.1}, {From: from(a), To: from(c), Delay: 2 * ms, Loss: 0.1},
			{From: from(b), Delay: ms}, {From: from(c), Delay: ms}}, []int64{0, 0, 0}},
		{"ToTheSharedVLAN", []Shape{{From: from(a), Delay: ms}}, true, []vswitch.Path{
			{From: from(a), Delay: ms}}, []int64{0, 0, 0, 0}},
		{"FromTheSharedVLAN", []Shape{{To: from(a), Delay: ms, Rate: 9}}, true, []vswitch.Path{{To: from(a), Delay: ms}}, []int64{9, 0, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := lan("s1", 3, tc.shapes...)
			if tc.shared {
				l.Shared = "v"
			}
			p, err := decide(l, noNetem, Auto)
			must(t, err)
			if !reflect.DeepEqual(p.paths, tc.want) {
				t.Errorf("paths\n got %+v\nwant %+v", p.paths, tc.want)
			}
			for i, p := range p.ports {
				if p.tbf != tc.ports[i] {
					t.Errorf("port %d has %d kbit/s, want %d", i, p.tbf, tc.ports[i])
				}
			}
		})
	}
}

// Each pair gets from the plan what was requested, compared with a simple computation.
func TestPlansMatchRequestedShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "ends")
		l := lan("s1", n)
		ids := func(name string) (list []string) {
			for _, e := range l.Ends {
				if rapid.IntRange(0, 3).Draw(t, name) == 0 {
					list = append(list, e.ID)
				}
			}
			return list
		}
		for range rapid.IntRange(0, 5).Draw(t, "shapes") {
			l.Shapes = append(l.Shapes, Shape{
				From: ids("from"), To: ids("to"),
				Rate:  int64(rapid.IntRange(0, 2).Draw(t, "rate")),
				Delay: time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")),
				Loss:  float64(rapid.IntRange(0, 2).Draw(t, "loss")) / 2,
				Only:  rapid.Bool().Draw(t, "only"),
			})
		}
		can := rapid.SampledFrom([]Features{everything, noNetem}).Draw(t, "can")
		p, err := decide(l, can, Auto)
		if err != nil {
			t.Fatal(err)
		}
		for i, from := range l.Ends {
			for j, to := range l.Ends {
				if i == j {
					continue
				}
				var want properties
				least := 0
				for _, s := range l.Shapes {
					if rank(s) == 3 && s.Only && containsID(s.From, from.ID) && containsID(s.To, to.ID) {
						least = 3
					}
				}
				for level := least; level < 4; level++ {
					for _, s := range l.Shapes {
						if rank(s) == level && containsID(s.From, from.ID) && containsID(s.To, to.ID) {
							want.add(s)
						}
					}
				}
				got := properties{rate: p.ports[j].tbf, delay: p.ports[j].netem.delay, loss: p.ports[j].netem.loss}
				for level := range 4 {
					for k := len(p.paths) - 1; k >= 0; k-- { // the first of equal ones counts
						s := Shape{From: p.paths[k].From, To: p.paths[k].To}
						if rank(s) == level && containsID(s.From, from.ID) && containsID(s.To, to.ID) {
							got = properties{rate: p.ports[j].tbf + p.paths[k].Rate/1000, delay: p.paths[k].Delay, loss: p.paths[k].Loss}
						}
					}
				}
				if got != want {
					t.Fatalf("from %d to %d: got %+v, want %+v; %+v", i, j, got, want, p)
				}
			}
		}
	})
}

func rank(s Shape) int {
	n := 0
	if len(s.To) > 0 {
		n++
	}
	if len(s.From) > 0 {
		n += 2
	}
	return n
}

func containsID(list []string, id string) bool {
	for _, s := range list {
		if s == id {
			return true
		}
	}
	return len(list) == 0
}

func TestForcedEmulatorIsMissing(t *testing.T) {
	for _, tt := range []struct {
		can      Features
		emulator string
		want     string // nothing: it is there
	}{
		{nothing, Auto, ""}, {everything, Netem, ""}, {everything, VSwitch, ""},
		{nothing, Netem, "no netem; type: modprobe -a sch_netem; or set emulator: auto"},
		{nothing, VSwitch, "no TUN; type: modprobe -a tun"},
	} {
		err := tt.can.CheckEmulator(tt.emulator)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.emulator, err, tt.want)
		}
	}
}
