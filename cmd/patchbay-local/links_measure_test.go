package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"patchbay/inventory/local/linktest"
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
type part func(ctx context.Context, l testLink, there pair, t tolerance) ([]measured, error)

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
					got, err := j.part(t.Context(), j.l, j.there, by)
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

func (s *linkSite) latencies(ctx context.Context, l testLink, there pair, t tolerance) ([]measured, error) {
	r, err := s.linktest(ctx, there, l.name, "--only", "delay", "--time", (t.time / 3).String())
	if err != nil {
		return nil, err
	}
	if r.Delay.Out == nil || r.Delay.In == nil {
		return nil, fmt.Errorf("%s on %s: nodes of one host are told to have different clocks", there, l.name)
	}
	var all []measured
	for p, got := range map[pair]float64{there: r.Delay.Out.Median, there.back(): r.Delay.In.Median} {
		want := l.asked[p].latency
		off, good := t.withinLatency(want, got)
		all = append(all, measured{"", l.name, p, "latency", fmt.Sprintf("%g ms", want), fmt.Sprintf("%.2f ms", got), off, good})
	}
	return all, nil
}

// losses measures loss of packets that come one by one, and of those that the
// kernel cuts from bursts: there each must have its own luck, too.
func (s *linkSite) losses(ctx context.Context, l testLink, there pair, t tolerance) ([]measured, error) {
	const size, least = 100, 1500
	rate := 4e6
	for _, p := range []pair{there, there.back()} {
		if c := l.asked[p].capacity; c > 0 {
			rate = min(rate, float64(c)*1000/4)
		}
	}
	packets := rate * t.time.Seconds() / 8 / (size + 42)
	length := time.Duration(float64(t.time) * max(1, least/packets))
	r, err := s.linktest(ctx, there, l.name, "--only", "udp,bursts", "--time", length.String(), "--size", strconv.Itoa(size), "--udp", fmt.Sprintf("%.0f", rate))
	if err != nil {
		return nil, err
	}
	var all []measured
	for i, y := range []linktest.DatagramStats{r.UDP.Out, r.UDP.In, r.Bursts.Out, r.Bursts.In} {
		p := []pair{there, there.back()}[i%2]
		want := l.asked[p].loss
		off, good := t.withinLoss(want, y.Loss)
		if y.Run > 2 && y.Loss > 0.5 {
			off, good = fmt.Sprintf("%.0f in a row", y.Run), false
		}
		all = append(all, measured{"", l.name, p, []string{"loss", "loss of bursts"}[i/2], fmt.Sprintf("%g %%", want), fmt.Sprintf("%.2f %%", y.Loss), off, good})
	}
	return all, nil
}

// capacities measures what goes through, and that a direction of which nothing
// is asked takes several times as much as the other.
func (s *linkSite) capacities(ctx context.Context, l testLink, there pair, t tolerance) ([]measured, error) {
	rates, err := s.rates(ctx, l, there, t)
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

// rates are those on the line that go through each way, bit/s: of TCP, or where
// loss or latency would slow down TCP, of datagrams that are half as many again.
func (s *linkSite) rates(ctx context.Context, l testLink, there pair, t tolerance) ([2]float64, error) {
	a, b := l.asked[there], l.asked[there.back()]
	if a.latency+a.loss+b.latency+b.loss == 0 {
		length := t.time
		if a.capacity > 0 && a.capacity < 5000 || b.capacity > 0 && b.capacity < 5000 {
			length *= 2 // so few segments make the figure
		}
		r, err := s.linktest(ctx, there, l.name, "--only", "tcp", "--time", length.String())
		if err != nil {
			return [2]float64{}, err
		}
		return [2]float64{r.TCP.Out.Line, r.TCP.In.Line}, nil
	}
	var got [2]float64
	for i, x := range []linkProperties{a, b} {
		if x.capacity == 0 || i == 1 && a.capacity == b.capacity {
			continue
		}
		r, err := s.linktest(ctx, there, l.name, "--only", "udp", "--time", t.time.String(), "--size", "1400", "--udp", strconv.FormatInt(x.capacity*1500, 10))
		if err != nil {
			return [2]float64{}, err
		}
		for j, rate := range []float64{r.UDP.Out.Rate, r.UDP.In.Rate} {
			if []linkProperties{a, b}[j].capacity == x.capacity {
				got[j] = rate
			}
		}
	}
	// Packets may be lost before or after they wait for their turn.
	for i, x := range []linkProperties{a, b} {
		if full := float64(x.capacity) * 1000; x.loss > 0 && got[i] < full {
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
