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

// promise sums up the properties of a link in one line: what holds for all
// directions, or each direction apart while they are two.
func (l *Link) promise() string {
	var words []string // different ones, in order
	seen := map[string]bool{}
	for _, p := range l.Properties {
		if s := p.String(); s != "" && !seen[s] {
			seen[s] = true
			words = append(words, s)
		}
	}
	switch {
	case len(words) == 0:
		return ""
	case len(words) == 1:
		return words[0]
	case len(words) == 2 && len(l.Properties) == 2 && len(l.Ends) == 2:
		if l.Properties[0].Source == l.Ends[1].Name {
			words[0], words[1] = words[1], words[0]
		}
		return "→ " + words[0] + " ← " + words[1]
	}
	return words[0] + " and " + strconv.Itoa(len(words)-1) + " more"
}
