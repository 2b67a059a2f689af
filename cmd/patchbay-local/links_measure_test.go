package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

// measureTime is how long a link is measured. A link of the wrong kind, or wrong by a factor,
// must be noticed, also on a busy host.
const measureTime = 400 * time.Millisecond

// figure is one measured property of a link, in one direction.
type figure struct {
	pair             pair
	what, asked, got string
	good             bool
}

// measure measures all properties that are requested of the links, and checks that those of
// one direction do not affect the other. Latencies and large capacities are measured alone.
func (s *linkSite) measure(t testing.TB, whose string) {
	t.Helper()
	type job struct {
		part  func(l testLink, there pair) ([]figure, error)
		l     testLink
		there pair
		alone int
	}
	var jobs []job
	for _, l := range s.links {
		for i := range l.nodes {
			for j := i + 1; j < len(l.nodes); j++ {
				there := pair(l.nodes[i:i+1] + l.nodes[j:j+1])
				x, y := l.asked[there], l.asked[there.back()]
				if x.latency+y.latency > 0 {
					jobs = append(jobs, job{s.latencies, l, there, 1})
				}
				if x.loss+y.loss > 0 {
					jobs = append(jobs, job{s.losses, l, there, 0})
				}
				if c := max(x.capacity, y.capacity); c > 0 {
					alone := 0
					if len(l.nodes) > 2 || c > 20e3 || x == (linkProperties{}) || y == (linkProperties{}) { // a node of a LAN has one capacity
						alone = 1
					}
					jobs = append(jobs, job{s.capacities, l, there, alone})
				}
			}
		}
	}
	slices.SortStableFunc(jobs, func(x, y job) int { return cmp.Compare(y.alone, x.alone) })
	run := func(j job) {
		var got []figure
		for range 3 { // a busy host disturbs now and then
			var err error
			if got, err = j.part(j.l, j.there); err != nil {
				t.Errorf("%s: %v", whose, err)
				return
			}
			if !slices.ContainsFunc(got, func(f figure) bool { return !f.good }) {
				break
			}
		}
		for _, f := range got {
			report := t.Logf
			if !f.good {
				report = t.Errorf
			}
			report("%s, %s, %s: %s of %s requested, %s measured", whose, j.l.name, f.pair, f.what, f.asked, f.got)
		}
	}
	var all sync.WaitGroup
	places := make(chan struct{}, 4)
	for _, j := range jobs {
		if j.alone > 0 {
			run(j)
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			run(j)
			<-places
		})
	}
	all.Wait()
}

func (s *linkSite) latencies(l testLink, there pair) (all []figure, err error) {
	for _, p := range []pair{there, there.back()} {
		const space = 5 * time.Millisecond
		f, err := s.send(p, l.name, traffic{size: 64, burst: 1, count: int(measureTime / 3 / space), space: space})
		if err != nil {
			return nil, err
		}
		want, got := l.asked[p].latency, f.delay()
		all = append(all, figure{p, "latency", fmt.Sprintf("%g ms", want), fmt.Sprintf("%.2f ms", got), math.Abs(got-want) <= 3+want && got >= want/2})
	}
	return all, nil
}

// losses measures the loss of packets that come one by one, and of those that the kernel cuts
// from bursts. There, too, each packet is lost or kept by itself.
func (s *linkSite) losses(l testLink, there pair) (all []figure, err error) {
	rate := 4e6
	for _, p := range []pair{there, there.back()} {
		if c := l.asked[p].capacity; c > 0 {
			rate = min(rate, float64(c)*1000/4)
		}
	}
	for what, burst := range map[string]int{"loss": 1, "loss of bursts": 20} {
		for _, p := range []pair{there, there.back()} {
			w := paced(rate, 100, burst, measureTime)
			w.count = max(w.count, 1500)
			f, err := s.send(p, l.name, w)
			if err != nil {
				return nil, err
			}
			want := l.asked[p].loss
			got, run := f.loss()
			good := math.Abs(got-want) <= 3 && (want == 0 || got > 0) && (run <= 2 || got <= 0.5)
			all = append(all, figure{p, what, fmt.Sprintf("%g %%", want), fmt.Sprintf("%.2f %%, %.1f in a row", got, run), good})
		}
	}
	return all, nil
}

// capacities sends 150 % of the capacity of a direction. A direction without requested properties
// must carry several times as much as the other.
func (s *linkSite) capacities(l testLink, there pair) (all []figure, err error) {
	for _, p := range []pair{there, there.back()} {
		x, other := l.asked[p], float64(l.asked[p.back()].capacity)*1000
		full, length, burst := float64(x.capacity)*1000, measureTime, 1
		rate := cmp.Or(1.5*full, 5*other)
		if rate > 20e6 {
			burst = 40
		}
		f, err := s.send(p, l.name, paced(rate, 1400, burst, length))
		if err != nil {
			return nil, err
		}
		got := f.rate(1400)
		if x.loss > 0 && got < full { // packets are lost before or after they wait
			got = min(got/(1-x.loss/100), full)
		}
		text := fmt.Sprintf("%.3g Mbit/s", got/1e6)
		switch {
		case full > 0:
			all = append(all, figure{p, "capacity", fmt.Sprintf("%g Mbit/s", full/1e6), text, got <= 2*full && got >= full/2})
		case x == linkProperties{} && other <= 20e6:
			all = append(all, figure{p, "capacity", "any", text, got > 3*other})
		}
	}
	return all, nil
}
