package binder

import (
	"strconv"
	"time"

	"patchbay/rspec"
)

// quality holds the properties of frames on their way from one end to another.
type quality struct {
	capacity int64 // kbit/s
	latency  time.Duration
	loss     float64 // per cent
}

func qualityOf(p rspec.Property) quality { return quality{p.Capacity, p.Latency, percent(p.Loss)} }

// percent converts a fraction of 1 to per cent. It rounds to 15 digits, which restores the
// number that the request parser divided by 100.
func percent(part float64) float64 {
	if part == 0 {
		return 0
	}
	n, err := strconv.ParseFloat(strconv.FormatFloat(part*100, 'g', 15, 64), 64)
	if err != nil {
		return part * 100
	}
	return n
}

// combine combines two qualities that both apply; the stricter value wins.
func (s quality) combine(o quality) quality {
	if s.capacity == 0 || o.capacity != 0 && o.capacity < s.capacity {
		s.capacity = o.capacity
	}
	return quality{s.capacity, max(s.latency, o.latency), max(s.loss, o.loss)}
}

// overriddenBy returns s with its values replaced by those that o has.
func (s quality) overriddenBy(o quality) quality {
	if o.capacity != 0 {
		s.capacity = o.capacity
	}
	if o.latency != 0 {
		s.latency = o.latency
	}
	if o.loss != 0 {
		s.loss = o.loss
	}
	return s
}
