package rspec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"patchbay/schemas/xmltree"
)

// Maxima of properties. Larger values are mistakes, since no equipment has them.
const (
	maxCapacity = 1e12 // kbit/s
	maxLatency  = float64(time.Hour / time.Millisecond)
)

// readProperties reads the properties of the link l; e is the link's element. Properties for
// the same direction become one.
func (p *requestParser) readProperties(e *xmltree.Element, l *Link, list []*xmltree.Element) {
	type direction struct{ source, dest string }
	var (
		known         map[direction]int // index of l.Properties
		lossExplained bool              // a remark explains the unit of packet_loss
	)
	for _, c := range list {
		q, ok := p.readProperty(c, l)
		if ok && q == (Property{}) {
			continue // requests nothing and is only copied
		}
		if sides := p.readSides(c, e, l, &q); !sides || !ok {
			continue
		}
		if text := trimmed(c, "packet_loss"); !lossExplained && q.Loss > 0 {
			lossExplained = p.remarkLossUnit(c, l, text, q.Loss)
		}
		if known == nil {
			known = make(map[direction]int, len(list))
		}
		d := direction{q.Source, q.Dest}
		i, twice := known[d]
		if !twice {
			known[d] = len(l.Properties)
			l.Properties = append(l.Properties, q)
			continue
		}
		if attr := l.Properties[i].join(q); attr != "" {
			p.badArgs(place{c, attr}, l.ClientID, "keep one of them", "link %.80q has two properties from %.80q to %.80q with different %s", l.ClientID, value(c, "source_id"), value(c, "dest_id"), attr)
		}
	}
}

// join adds the values of q, a property for the same direction. If both properties have
// different values for one attribute, join returns the attribute's name and changes nothing.
func (p *Property) join(q Property) (attribute string) {
	switch {
	case p.Capacity != 0 && q.Capacity != 0 && p.Capacity != q.Capacity:
		return "capacity"
	case p.Latency != 0 && q.Latency != 0 && p.Latency != q.Latency:
		return "latency"
	case p.Loss != 0 && q.Loss != 0 && p.Loss != q.Loss:
		return "packet_loss"
	}
	p.Capacity, p.Latency, p.Loss = max(p.Capacity, q.Capacity), max(p.Latency, q.Latency), max(p.Loss, q.Loss)
	return ""
}

// readProperty reads the values of e, a property of the link l, without its two interfaces. It records a wrong
// value as a problem, and returns ok false. The zero Property requests nothing.
func (p *requestParser) readProperty(e *xmltree.Element, l *Link) (q Property, ok bool) {
	ok = true
	number := func(name string, most float64, remedy string) float64 {
		text := trimmed(e, name)
		n, fits := parseQuantity(text, most)
		if !fits {
			ok = false
			p.badArgs(place{e, name}, l.ClientID, remedy, "link %.80q has a property with the %s %.80q", l.ClientID, name, text)
		}
		return n
	}
	capacity := number("capacity", maxCapacity, "write kbit/s as a number, such as 100000 for 100 Mbit/s")
	latency := number("latency", maxLatency, "write milliseconds as a number up to an hour, such as 10")
	most, remedy := 100.0, "write per cent as a number from 0 to 100"
	if p.o.PacketLoss == Fraction {
		most, remedy = 1, "write a fraction from 0 to 1, such as 0.01 for 1 %; this site does not read values above 1 as per cent"
	}
	loss := number("packet_loss", most, remedy)
	q.Capacity = int64(math.Ceil(capacity))
	q.Latency = time.Duration(math.Round(latency * float64(time.Millisecond)))
	q.Loss = loss / most
	return q, ok
}

// parseQuantity parses a decimal number from 0 to highest. An empty text is 0, which requests
// nothing.
func parseQuantity(text string, highest float64) (n float64, ok bool) {
	if text == "" {
		return 0, true
	}
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return 0, false // infinity, hexadecimal
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= highest) {
		return 0, false
	}
	return n, true
}

// readSides reads the two interfaces of the property c into q, and reports whether they are
// valid. The link's own name on one side means all interfaces except the one on the other
// side. The field of q is then empty. A link that joins another only shapes frames from its new
// interfaces, because those in the slice keep their properties.
func (p *requestParser) readSides(c, link *xmltree.Element, l *Link, q *Property) bool {
	side := func(attr string) (name string, ok bool) {
		name = value(c, attr)
		if i, found := p.interfaces[name]; found && p.ends[i].link == link {
			return name, true
		}
		if name != "" && name == l.ClientID {
			return "", true
		}
		if l.Join {
			p.badArgs(place{c, attr}, l.ClientID, fmt.Sprintf("the link's other interfaces keep their properties; for all of them write %.80q", l.ClientID), "link %.80q has a property with the %s %.80q, which is not one of its new interfaces", l.ClientID, attr, name)
			return "", false
		}
		what, args := "that has no %[2]s", []any{l.ClientID, attr}
		if name != "" {
			what, args = "with the %[2]s %.80[3]q, which is not an interface of the link", append(args, name)
		}
		p.remark(place{c, attr}, l.ClientID, fmt.Sprintf("%s; for all other ends, also those of other slices, write %.80q", ignored, l.ClientID), "link %.80[1]q has a property "+what, args...)
		return "", false
	}
	source, ok := side("source_id")
	dest, ok2 := side("dest_id")
	if !ok || !ok2 {
		return false
	}
	if source == dest {
		p.badArgs(place{c, "dest_id"}, l.ClientID, fmt.Sprintf("name another interface of the link, or %.80q for all others", l.ClientID), "link %.80q has a property from %.80q to itself", l.ClientID, value(c, "source_id"))
		return false
	}
	if l.Join && source == "" {
		p.refuse(Unsupported, place{c, "source_id"}, l.ClientID, "leave the property out; one from a new interface is possible", "link %.80q has a property from all other interfaces to %.80q, but those in the slice keep their properties", l.ClientID, dest)
		return false
	}
	q.Source, q.Dest = source, dest
	return true
}

// remarkLossUnit adds a remark if the packet_loss is below 1, because the client may have
// meant a fraction or per cent. It reports whether it added the remark.
func (p *requestParser) remarkLossUnit(e *xmltree.Element, l *Link, text string, loss float64) bool {
	n, _ := strconv.ParseFloat(text, 64)
	if n >= 1 {
		return false
	}
	percent := strconv.FormatFloat(loss*100, 'g', 4, 64)
	unit, remedy := "per cent", fmt.Sprintf("if a fraction was meant, write %s", strconv.FormatFloat(n*100, 'g', 6, 64))
	if p.o.PacketLoss == Fraction {
		unit, remedy = "a fraction", fmt.Sprintf("if per cent was meant, write %s", strconv.FormatFloat(n/100, 'g', 6, 64))
	}
	p.remark(place{e, "packet_loss"}, l.ClientID, remedy, "link %.80q has the packet_loss %.40q, which is read as %s: %s %% of the packets", l.ClientID, text, unit, percent)
	return true
}
