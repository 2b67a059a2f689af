package binder

import (
	"strconv"
	"time"

	"patchbay/rspec"
)

// quality is what frames meet on their way from one end to another.
type quality struct {
	capacity int64 // kbit/s
	latency  time.Duration
	loss     float64 // per cent
}

func qualityOf(p rspec.Property) quality { return quality{p.Capacity, p.Latency, percent(p.Loss)} }

// percent is a part of 1 as the decimal number of per cent that it was read from:
// 15 digits are those that survive two roundings.
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

// and is what frames meet for which both are asked: the one that asks for more.
func (s quality) and(o quality) quality {
	if s.capacity == 0 || o.capacity != 0 && o.capacity < s.capacity {
		s.capacity = o.capacity
	}
	return quality{s.capacity, max(s.latency, o.latency), max(s.loss, o.loss)}
}

// under is s where o, which is more particular, asks for nothing.
func (s quality) under(o quality) quality {
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
