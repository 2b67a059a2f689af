package draw

import (
	"math"
	"strconv"
	"strings"
)

// capacity puts kbit/s into human units. Text that is no number stays what it
// is, and 0 is nothing: it means that the site decides.
func capacity(s string) string {
	v, ok := number(strings.TrimSuffix(s, "kbps"))
	switch {
	case !ok:
		return s
	case v == 0:
		return ""
	case v >= 1e9:
		return digits(v/1e9) + " Tbit/s"
	case v >= 1e6:
		return digits(v/1e6) + " Gbit/s"
	case v >= 1e3:
		return digits(v/1e3) + " Mbit/s"
	}
	return digits(v) + " kbit/s"
}

// latency puts milliseconds into human units.
func latency(s string) string {
	v, ok := number(s)
	switch {
	case !ok:
		return s
	case v == 0:
		return ""
	case v >= 1000:
		return digits(v/1000) + " s"
	case v < 1:
		return digits(v*1000) + " µs"
	}
	return digits(v) + " ms"
}

// loss is packet loss. From 1 on it can only be per cent; below, documents mean
// per cent or a fraction, so the number stands alone.
func loss(s string) string {
	v, ok := number(s)
	switch {
	case !ok && s == "":
		return ""
	case !ok:
		return s + " loss"
	case v == 0:
		return ""
	case v < 1:
		return digits(v) + " loss"
	}
	return digits(v) + " % loss"
}

// number reads a finite number that is not negative.
func number(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0 && v < math.MaxInt64
}

// digits prints at most three after the point.
func digits(v float64) string {
	if v < 0.001 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// String joins what is said: "100 Mbit/s, 10 ms, 1 % loss".
func (p Property) String() string {
	var parts []string
	for _, s := range []string{p.Capacity, p.Latency, p.Loss} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// promises sum up what a link promises: what holds for all directions, or each
// direction by the names of its ends while they are two. Names are shortened by
// short.
func (p *Picture) promises(l *Link, short func(string) string) []string {
	var words []string // different ones, in order
	var first []*Property
	seen := map[string]bool{}
	for i := range l.Properties {
		if s := l.Properties[i].String(); s != "" && !seen[s] {
			seen[s] = true
			words, first = append(words, s), append(first, &l.Properties[i])
		}
	}
	switch {
	case len(words) == 0 && len(l.Speeds) > 0:
		return []string{strings.Join(l.Speeds[:min(len(l.Speeds), 4)], " or ")}
	case len(words) < 2:
		return words
	case len(words) == 2 && len(l.Properties) == 2 && len(l.Ends) == 2:
		a, z := l.Ends[0], l.Ends[1]
		if first[0].Source == z.Name && first[0].Dest == a.Name {
			first[0], first[1] = first[1], first[0]
		}
		if first[0].Source != a.Name || first[0].Dest != z.Name || first[1].Source != z.Name || first[1].Dest != a.Name {
			break
		}
		there, back := short(full(a.Name)), short(full(z.Name))
		if a.Node >= 0 && z.Node >= 0 && a.Node != z.Node {
			there, back = short(p.Nodes[a.Node].name()), short(p.Nodes[z.Node].name())
		}
		return []string{there + " → " + back + " " + first[0].String(), back + " → " + there + " " + first[1].String()}
	}
	return []string{words[0] + " and " + strconv.Itoa(len(words)-1) + " more"}
}

// promise is all of it in one line.
func (p *Picture) promise(l *Link) string {
	return strings.Join(p.promises(l, func(s string) string { return s }), "; ")
}
