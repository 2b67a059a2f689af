package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// BenchmarkAllocateBesideWindows reserves a node on a site of 10,000 components beside reservations that begin later,
// and reports the longest decision.
func BenchmarkAllocateBesideWindows(b *testing.B) {
	for _, tt := range []struct {
		name    string
		windows int
		place   func(i int) (component string, from, length time.Duration)
	}{
		{"none", 0, nil},
		{"half of the site in two days", 5_000, func(i int) (string, time.Duration, time.Duration) {
			return fmt.Sprint("pc", 2*i%9000+1), 48 * time.Hour, 24 * time.Hour
		}},
		{"half of the site in an hour", 5_000, func(i int) (string, time.Duration, time.Duration) {
			return fmt.Sprint("pc", 2*i%9000+1), time.Hour, 24 * time.Hour
		}},
		{"19,900 small ones on ten nodes", 19_900, func(i int) (string, time.Duration, time.Duration) {
			return fmt.Sprint("pc", i%10+1), time.Hour + time.Duration(i/10)*time.Minute, time.Minute
		}},
		{"19,900 small ones on a host", 19_900, func(i int) (string, time.Duration, time.Duration) {
			return "h1", time.Hour + time.Duration(i/10)*time.Minute, time.Minute
		}},
	} {
		for _, window := range [][2]time.Duration{{0, 24 * time.Hour}, {0, 29 * 24 * time.Hour}, {50 * time.Hour, 20 * 24 * time.Hour}} {
			b.Run(fmt.Sprintf("%s, from %s until %s", tt.name, window[0], window[1]), func(b *testing.B) {
				s := setting{inventory: tenThousand}.site(b)
				s.putWindows(b, tt.windows, tt.place)
				alice := s.user("alice").own("mine", 30*24*time.Hour)
				for b.Loop() {
					alice.call("Allocate", alice.slice, creds(alice.cred), request(`<node client_id="a" exclusive="true"/><node client_id="b" exclusive="false"><sliver_type name="vm"/></node>`),
						opts(opt("geni_start_time", FormatTime(s.clock().Add(window[0]))), opt("geni_end_time", FormatTime(s.clock().Add(window[1]))))).want(b, "Allocate", am.Success)
					b.StopTimer()
					alice.call("Delete", strs(alice.slice), creds(alice.cred), opts()).want(b, "Delete", am.Success)
					s.settle()
					b.StartTimer()
				}
				b.ReportMetric(float64(s.store.LongestDecision().Microseconds())/1000, "longest-ms")
			})
		}
	}
}

// tenThousand is a site of 10,000 components.
const tenThousand = "provider: simulated\nimages: [{name: debian}]\nsliver_types: [{name: pc, images: [debian], default_image: debian}, {name: vm, images: [debian], default_image: debian}]\ndefault_sliver_type: pc\ncomponents:\n" +
	"  - {names: pc1..pc9000, exclusive: true, sliver_types: [pc]}\n  - {names: h1..h1000, exclusive: false, sliver_types: [vm], capacity: {slots: 10}}\n"

// putWindows stores n reservations of other slices. Those with a start of 0 have begun.
func (s *site) putWindows(b *testing.B, n int, place func(i int) (component string, from, length time.Duration)) {
	var all []am.Sliver
	for i := range n {
		name, from, length := place(i)
		c, _ := s.inventory.ComponentNamed(name)
		begins := s.clock().Add(from).Truncate(time.Second)
		all = append(all, am.Sliver{
			URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(i)}, Slice: urn.URN{Authority: "example.org:other", Type: urn.Slice, Name: fmt.Sprint(i % 1000)},
			ClientID: fmt.Sprint(i), Component: c.URN, ComponentName: c.Name, Provider: c.Provider, SliverType: c.SliverTypes[0].Name, Exclusive: c.Exclusive, Amount: c.SliverTypes[0].Needs,
			Status: am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}, Created: s.clock(), Begins: begins, Ends: begins.Add(length), Expires: begins.Add(length), Begun: from == 0,
		})
	}
	for part := range slices.Chunk(all, 100) {
		err := s.store.Commit(b.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			for _, x := range part {
				cs.PutSliver(x)
			}
			return cs, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefusalBesideWindows refuses nodes on a full site, and finds the first start.
func BenchmarkRefusalBesideWindows(b *testing.B) {
	for _, slivers := range []int{9_000, 28_900} {
		for _, nodes := range []int{1, 500} {
			b.Run(fmt.Sprintf("%d slivers, %d nodes", slivers, nodes), func(b *testing.B) {
				s := setting{inventory: tenThousand}.site(b)
				s.putWindows(b, slivers, func(i int) (string, time.Duration, time.Duration) {
					if i < 9_000 {
						return fmt.Sprint("pc", i+1), 0, time.Hour + time.Duration(i*7919%9000)*time.Second
					}
					return fmt.Sprint("pc", i%10+1), 4*time.Hour + time.Duration(i/10)*time.Minute, time.Minute
				})
				s.previewer = nil
				alice := s.user("alice").own("mine", 30*24*time.Hour)
				var list strings.Builder
				for i := range nodes {
					fmt.Fprintf(&list, `<node client_id="n%d" exclusive="true"/>`, i)
				}
				text, found := request(list.String()), 0
				for b.Loop() {
					end := opt("geni_end_time", FormatTime(s.clock().Add(3*time.Hour)))
					if strings.Contains(alice.call("Allocate", alice.slice, creds(alice.cred), text, opts(end)).want(b, "Allocate", am.TooBig).output, "has room from") {
						found++
					}
				}
				b.ReportMetric(float64(s.store.LongestDecision().Microseconds())/1000, "longest-ms")
				b.ReportMetric(float64(found)/float64(b.N), "found")
			})
		}
	}
}

// BenchmarkAdvertisementOfAWindow measures ListResources for a time to come.
func BenchmarkAdvertisementOfAWindow(b *testing.B) {
	s := setting{inventory: tenThousand, adExtensions: []string{service.NITOS}}.site(b)
	s.putWindows(b, 20_000, func(i int) (string, time.Duration, time.Duration) {
		return fmt.Sprint("pc", i%9000+1), time.Duration(i/9000) * time.Hour, time.Hour
	})
	for encoding, name := range []string{"plain", "compressed", "gzip"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				start := s.clock().Add(time.Hour + time.Duration(i)*time.Second)
				if _, err := s.api.windowAdvertisement(b.Context(), form{encoding: encoding}, start, start.Add(24*time.Hour)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
