package relay

import (
	"slices"
	"testing"
	"time"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		there, back time.Duration
		segment     bool
	}{
		{0, 0, true},
		{time.Millisecond, 10 * time.Millisecond, true},
		{time.Millisecond, 10 * time.Millisecond, false},
		{100 * time.Millisecond, 0, true},
	} {
		t.Run(c.there.String()+"And"+c.back.String(), func(t *testing.T) {
			k, _, _ := newKeeper(t)
			a, b := newHost(t, 1, c.segment), newHost(t, 2, c.segment)
			lanOf(t, k, []Path{
				{From: []string{"p1"}, To: []string{"p2"}, Delay: c.there},
				{From: []string{"p2"}, Delay: c.back},
			}, a, b)
			for _, way := range []struct {
				from, to *host
				want     time.Duration
			}{{a, b, c.there}, {b, a, c.back}} {
				took := probe(t, way.from, way.to, 101, 2*time.Millisecond)
				if len(took) != 101 {
					t.Errorf("%d of 101 arrived", len(took))
				}
				least := slices.Min(took)
				got := median(took)
				t.Logf("%s: median %s, least %s, most %s", way.want, got, least, took[len(took)-1])
				if least < way.want || got > way.want+300*time.Microsecond {
					t.Errorf("median %s, least %s, want %s", got, least, way.want)
				}
			}
		})
	}
}
