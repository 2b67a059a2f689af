package draw

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec/view"
)

// capacity makes a readable text of a number of kbit/s. Text that is not a number remains
// unchanged. For 0, which means that the site decides, the result is "".
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

// latency makes a readable text of a number of milliseconds. Text that is not a number remains
// unchanged. For 0 the result is "".
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

// loss returns a text such as "1 % loss". Text that is not a number remains, followed by
// "loss". For 0 and for empty text the result is "".
func loss(s string) string {
	v, ok := number(s)
	switch {
	case !ok && s == "":
		return ""
	case !ok:
		return s + " loss"
	case v == 0:
		return ""
	}
	return digits(v) + " % loss"
}

// number parses a number that is neither negative nor infinite.
func number(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0 && v < math.MaxInt64
}

func digits(v float64) string {
	if v < 0.001 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// propertyWords joins the properties that are set: "100 Mbit/s, 10 ms, 1 % loss".
func propertyWords(p *view.Property) string {
	return joined(", ", capacity(p.Capacity), latency(p.Latency), loss(p.Loss))
}

// speedWords returns the first speeds of a link.
func speedWords(l *view.Link, separator string) string {
	var words []string
	for _, s := range first(l.Speeds, 4) {
		words = append(words, capacity(s))
	}
	return strings.Join(words, separator)
}

// propertyTexts returns one text for all directions, or one for each of two directions. A text
// for one direction names both ends, each shortened.
func propertyTexts(d *view.Document, l *view.Link, shorten func(string) string) []string {
	var words []string         // different properties as texts, in order
	var first []*view.Property // the first property with each of the texts
	seen := map[string]bool{}
	for i := range l.Properties {
		if s := propertyWords(&l.Properties[i]); s != "" && !seen[s] {
			seen[s] = true
			words, first = append(words, s), append(first, &l.Properties[i])
		}
	}
	switch {
	case len(words) == 0 && len(l.Speeds) > 0:
		return []string{speedWords(l, " or ")}
	case len(words) == 0, len(words) == 1 && (len(l.Ends) <= 2 || allPairs(l)):
		return words
	case len(words) == 2 && len(l.Properties) == 2 && len(l.Ends) == 2:
		a, z := l.Ends[0], l.Ends[1]
		if first[0].Source == z.Name && first[0].Dest == a.Name {
			first[0], first[1] = first[1], first[0]
		}
		if first[0].Source != a.Name || first[0].Dest != z.Name || first[1].Source != z.Name || first[1].Dest != a.Name {
			break
		}
		there, back := shorten(cleaned(a.Name)), shorten(cleaned(z.Name))
		if a.Node >= 0 && z.Node >= 0 && a.Node != z.Node {
			there, back = shorten(nameOf(&d.Nodes[a.Node])), shorten(nameOf(&d.Nodes[z.Node]))
		}
		return []string{there + " → " + back + " " + propertyWords(first[0]), back + " → " + there + " " + propertyWords(first[1])}
	}
	var capacities, latencies, losses []string
	for _, q := range first {
		capacities, latencies, losses = append(capacities, capacity(q.Capacity)), append(latencies, latency(q.Latency)), append(losses, loss(q.Loss))
	}
	all := joined(", ", quantityRange(capacities), quantityRange(latencies), quantityRange(losses))
	if len(l.Ends) == 2 {
		return []string{all + ", directions differ"}
	}
	return []string{all + ", pairs differ"}
}

// allPairs reports whether each end has properties to each other end. The link's own name as
// an end stands for all other ends.
func allPairs(l *view.Link) bool {
	out, in := map[string]bool{}, map[string]bool{} // ends with properties to all others, and from all others
	for _, q := range l.Properties {
		if propertyWords(&q) == "" {
			continue
		}
		if q.Dest == l.Name {
			out[q.Source] = true
		}
		if q.Source == l.Name {
			in[q.Dest] = true
		}
	}
	sources, dests, both := 0, 0, 0 // ends outside out, outside in, and outside both
	for _, e := range l.Ends {
		if !out[e.Name] {
			sources++
		}
		if !in[e.Name] {
			dests++
		}
		if !out[e.Name] && !in[e.Name] {
			both++
		}
	}
	pairs := map[[2]string]bool{}
	for _, q := range l.Properties {
		if propertyWords(&q) != "" && !out[q.Source] && !in[q.Dest] && q.Source != l.Name && q.Dest != l.Name {
			pairs[[2]string{q.Source, q.Dest}] = true
		}
	}
	return len(pairs) >= sources*dests-both
}

// scales are factors to the smallest unit of each kind.
var scales = map[string]float64{
	"kbit/s": 1, "Mbit/s": 1e3, "Gbit/s": 1e6, "Tbit/s": 1e9, "µs": 1, "ms": 1e3, "s": 1e6, "% loss": 1,
}

// quantityRange returns a text such as "5–50 Mbit/s". It skips empty texts. If a text is not a
// quantity, the result is one of the texts and "and others".
func quantityRange(texts []string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if slices.Sort(texts); len(texts) == 0 || texts[0] == texts[len(texts)-1] {
		return strings.Join(texts[:min(len(texts), 1)], "")
	}
	var least, most string
	var low, high float64
	for _, s := range texts {
		n, unit, _ := strings.Cut(s, " ")
		v, ok := number(n)
		if v *= scales[unit]; !ok || scales[unit] == 0 {
			return texts[0] + " and others"
		}
		if least == "" || v < low {
			least, low = s, v
		}
		if most == "" || v > high {
			most, high = s, v
		}
	}
	n, unit, _ := strings.Cut(least, " ")
	if strings.HasSuffix(most, " "+unit) && strings.Count(most, " ") == strings.Count(least, " ") {
		least = n
	}
	return least + "–" + most
}

func propertyText(d *view.Document, l *view.Link) string {
	return strings.Join(propertyTexts(d, l, func(s string) string { return s }), "; ")
}
