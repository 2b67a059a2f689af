package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// tolerance is by how much a link may miss what is asked.
type tolerance struct {
	capacity float64 // share
	latency  float64 // share
	extra    float64 // ms beside that
	loss     float64 // points
	time     time.Duration
	tries    int
}

// roughly is a tolerance for tests: a link of the wrong kind, or wrong by a factor, fails; a
// busy host does not.
var roughly = tolerance{capacity: 1, latency: 1, extra: 3, loss: 3, time: 400 * time.Millisecond, tries: 3}

// measured is one figure of a link beside what was asked of it.
type measured struct {
	emulator, link string
	pair           pair
	what           string
	asked          string
	got            string
	deviation      string
	good           bool
}

func (t tolerance) withinCapacity(asked, got float64) (string, bool) {
	return fmt.Sprintf("%+.1f %%", 100*(got/asked-1)), got <= asked*(1+t.capacity) && got >= asked/(1+t.capacity)
}

func (t tolerance) withinLatency(asked, got float64) (string, bool) {
	return fmt.Sprintf("%+.2f ms", got-asked), math.Abs(got-asked) <= t.extra+asked*t.latency && (asked == 0 || got >= asked/(1+t.latency))
}

func (t tolerance) withinLoss(asked, got float64) (string, bool) {
	return fmt.Sprintf("%+.2f points", got-asked), math.Abs(got-asked) <= t.loss && (asked == 0 || got > 0)
}

// part measures what is asked of a link of one kind, between two of its nodes.
type part func(l testLink, there pair, t tolerance) ([]measured, error)

// measure measures all that is asked of the links, and that what is asked of one
// direction is not done to the other. Times come first, one after another, then
// loss, then capacity, at last of those links that keep the host busy.
func (s *linkSite) measure(t testing.TB, emulator string, by tolerance) []measured {
	t.Helper()
	type job struct {
		l     testLink
		there pair
		part
		alone bool
	}
	var jobs [4][]job
	for _, l := range s.links {
		for i := range l.nodes {
			for j := i + 1; j < len(l.nodes); j++ {
				there := pair(l.nodes[i:i+1] + l.nodes[j:j+1])
				ways := [2]linkProperties{l.asked[there], l.asked[there.back()]}
				any := func(f func(linkProperties) bool) bool { return f(ways[0]) || f(ways[1]) }
				if any(func(a linkProperties) bool { return a.latency > 0 }) {
					jobs[0] = append(jobs[0], job{l, there, s.latencies, true})
				}
				if any(func(a linkProperties) bool { return a.loss > 0 }) {
					jobs[1] = append(jobs[1], job{l, there, s.losses, false})
				}
				if any(func(a linkProperties) bool { return a.capacity > 0 }) {
					phase := 2
					// Those of a LAN share what goes to one node.
					if len(l.nodes) > 2 || any(func(a linkProperties) bool { return a == linkProperties{} || a.capacity > 20e3 }) {
						phase = 3
					}
					jobs[phase] = append(jobs[phase], job{l, there, s.capacities, phase == 3})
				}
			}
		}
	}
	var rows []measured
	for _, phase := range jobs {
		results := make([][]measured, len(phase))
		places := make(chan struct{}, 4)
		var work sync.WaitGroup
		for i, j := range phase {
			if j.alone {
				work.Wait()
			}
			places <- struct{}{}
			work.Go(func() {
				defer func() { <-places }()
				for range by.tries { // a busy host is in the way only now and then
					got, err := j.part(j.l, j.there, by)
					if err != nil {
						t.Errorf("%s: %v", emulator, err)
						return
					}
					results[i] = got
					if !slices.ContainsFunc(got, func(m measured) bool { return !m.good }) {
						return
					}
				}
			})
		}
		work.Wait()
		rows = append(rows, slices.Concat(results...)...)
	}
	// As the links were drawn.
	slices.SortStableFunc(rows, func(x, y measured) int {
		at := func(m measured) int {
			return slices.IndexFunc(s.links, func(l testLink) bool { return l.name == m.link })
		}
		return at(x) - at(y)
	})
	for i := range rows {
		rows[i].emulator = emulator + ": " + s.item(t, string(rows[i].pair[1:]), rows[i].link).Emulator
	}
	return rows
}

func (s *linkSite) latencies(l testLink, there pair, t tolerance) ([]measured, error) {
	var all []measured
	for _, p := range []pair{there, there.back()} {
		const space = 5 * time.Millisecond
		f, err := s.send(p, l.name, traffic{size: 64, burst: 1, count: int(t.time / 3 / space), space: space})
		if err != nil {
			return nil, err
		}
		want, got := l.asked[p].latency, f.delay()
		off, good := t.withinLatency(want, got)
		all = append(all, measured{"", l.name, p, "latency", fmt.Sprintf("%g ms", want), fmt.Sprintf("%.2f ms", got), off, good})
	}
	return all, nil
}

// losses measures loss of packets that come one by one, and of those that the kernel cuts
// from bursts. There, too, each packet is lost or kept by itself.
func (s *linkSite) losses(l testLink, there pair, t tolerance) ([]measured, error) {
	const size, least = 100, 1500
	rate := 4e6
	for _, p := range []pair{there, there.back()} {
		if c := l.asked[p].capacity; c > 0 {
			rate = min(rate, float64(c)*1000/4)
		}
	}
	var all []measured
	for what, burst := range map[string]int{"loss": 1, "loss of bursts": 20} {
		for _, p := range []pair{there, there.back()} {
			w := paced(rate, size, burst, t.time)
			w.count = max(w.count, least)
			f, err := s.send(p, l.name, w)
			if err != nil {
				return nil, err
			}
			want := l.asked[p].loss
			got, run := f.loss()
			off, good := t.withinLoss(want, got)
			if run > 2 && got > 0.5 {
				off, good = fmt.Sprintf("%.0f in a row", run), false
			}
			all = append(all, measured{"", l.name, p, what, fmt.Sprintf("%g %%", want), fmt.Sprintf("%.2f %%", got), off, good})
		}
	}
	return all, nil
}

// capacities measures what goes through, and that a direction of which nothing
// is asked takes several times as much as the other.
func (s *linkSite) capacities(l testLink, there pair, t tolerance) ([]measured, error) {
	rates, err := s.rates(l, there, t)
	if err != nil {
		return nil, err
	}
	var all []measured
	for i, p := range []pair{there, there.back()} {
		want, other := float64(l.asked[p].capacity)*1000, float64(l.asked[p.back()].capacity)*1000
		got := fmt.Sprintf("%.3g Mbit/s", rates[i]/1e6)
		switch {
		case want > 0:
			off, good := t.withinCapacity(want, rates[i])
			all = append(all, measured{"", l.name, p, "capacity", fmt.Sprintf("%g Mbit/s", want/1e6), got, off, good})
		case l.asked[p] == linkProperties{} && other <= 20e6:
			all = append(all, measured{"", l.name, p, "capacity", "as is", got, "", rates[i] > 3*other})
		}
	}
	return all, nil
}

// rates are those on the line that go through each way, bit/s, when half as much again is sent.
func (s *linkSite) rates(l testLink, there pair, t tolerance) (got [2]float64, err error) {
	for i, p := range []pair{there, there.back()} {
		full, length := float64(l.asked[p].capacity)*1000, t.time
		rate := 1.5 * full
		if full == 0 {
			rate = 5000 * float64(l.asked[p.back()].capacity)
		}
		burst := 1
		if rate > 20e6 {
			burst = 40
		}
		if rate < 5e6 {
			length *= 2 // so few packets make the figure
		}
		f, err := s.send(p, l.name, paced(rate, 1400, burst, length))
		if err != nil {
			return got, err
		}
		got[i] = f.rate(1400)
		// Packets may be lost before or after they wait for their turn.
		if x := l.asked[p]; x.loss > 0 && got[i] < full {
			got[i] = min(got[i]/(1-x.loss/100), full)
		}
	}
	return got, nil
}

// printMeasured writes the table that is told of links.
func printMeasured(w io.Writer, rows []measured) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "made by\tlink\tway\twhat\tasked\tmeasured\tdeviation\tverdict")
	for _, r := range rows {
		verdict := "good"
		if !r.good {
			verdict = "WRONG"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.emulator, r.link, r.pair, r.what, r.asked, r.got, r.deviation, verdict)
	}
	out.Flush()
}
