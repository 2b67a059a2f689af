package rspec

import (
	"math"
	"strconv"
	"strings"
	"time"

	"patchbay/schemas/xmltree"
)

// readProperty reads a property of an own link; wrong says what is wrong with
// it and what to do.
func readProperty(e *xmltree.Element, unit LossUnit) (p Property, wrong string) {
	p = Property{Source: value(e, "source_id"), Dest: value(e, "dest_id")}
	capacity, ok := quantity(e, "capacity", math.MaxInt64/2)
	if !ok {
		return p, "the capacity " + strconv.Quote(clip(value(e, "capacity"))) + "; write kbit/s, such as 100000"
	}
	p.Capacity = int64(math.Ceil(capacity))
	latency, ok := quantity(e, "latency", float64(time.Hour/time.Millisecond))
	if !ok {
		return p, "the latency " + strconv.Quote(clip(value(e, "latency"))) + "; write milliseconds, such as 10"
	}
	p.Latency = time.Duration(latency * float64(time.Millisecond))
	most, remedy := 100.0, "; write per cent, from 0 to 100"
	if unit == Fraction {
		most, remedy = 1, "; write a fraction, from 0 to 1"
	}
	loss, ok := quantity(e, "packet_loss", most)
	if !ok {
		return p, "the packet_loss " + strconv.Quote(clip(value(e, "packet_loss"))) + remedy
	}
	p.Loss = loss / most
	return p, ""
}

// quantity is a number from 0 to most; without one it is 0.
func quantity(e *xmltree.Element, name string, most float64) (n float64, ok bool) {
	text := strings.TrimSpace(value(e, name))
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0 && n <= most
}
