package linktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Parts of a measurement.
const (
	PartTCP    = "tcp"
	PartDelay  = "delay"
	PartUDP    = "udp"
	PartBursts = "bursts"
)

// Options selects what to measure. The zero value measures everything.
type Options struct {
	Time time.Duration // of each part and direction; 3 s if 0, at most a minute
	Rate float64       // of paced datagrams on the line, bit/s; 0: half of the measured TCP rate, at most 10 Mbit/s
	Size int           // of a datagram's payload, bytes; 0: 1000
	Only []string      // parts; empty: all
}

// burst is the number of packets in a burst.
const burst = 20

// Result is the result of a measurement. Parts that were not requested are nil. In each part,
// Out is the direction from the client to the server.
type Result struct {
	Server string                       `json:"server"`
	TCP    *PerDirection[Stream]        `json:"tcp,omitempty"`
	Delay  *Delay                       `json:"delay,omitempty"`
	UDP    *PerDirection[DatagramStats] `json:"udp,omitempty"`
	Bursts *PerDirection[DatagramStats] `json:"bursts,omitempty"`
}

// PerDirection holds a result for each direction.
type PerDirection[T any] struct {
	Out T `json:"out"`
	In  T `json:"in"`
}

// Stream holds the rates of a TCP stream in bit/s: Goodput is the rate of the payload, Line
// the rate with all headers. A link's capacity limits Line.
type Stream struct {
	Goodput float64 `json:"goodput"`
	Line    float64 `json:"line"`
}

// Delay is the delay of datagrams: of the round trip, and of each direction if both ends
// have the same clock.
type Delay struct {
	Sent     int     `json:"sent"`
	Answered int     `json:"answered"`
	Trip     Spread  `json:"trip"`
	Out      *Spread `json:"out,omitempty"`
	In       *Spread `json:"in,omitempty"`
}

// Spread is the distribution of delays, in ms.
type Spread struct {
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

func (o Options) wants(part string) bool { return len(o.Only) == 0 || slices.Contains(o.Only, part) }

func (o Options) withDefaults() (Options, error) {
	for _, p := range o.Only {
		if !slices.Contains([]string{PartTCP, PartDelay, PartUDP, PartBursts}, p) {
			return o, fmt.Errorf("unknown part %q; the parts are tcp, delay, udp and bursts", clip(p))
		}
	}
	if o.Time == 0 {
		o.Time = 3 * time.Second
	}
	if o.Time < 100*time.Millisecond || o.Time > maxTime {
		return o, fmt.Errorf("the time is not between 100ms and %v", maxTime)
	}
	if o.Size == 0 {
		o.Size = 1000
	}
	if o.Rate == 0 {
		return o, nil
	}
	return o, pace{packets: 1, size: o.Size, burst: burst, rate: o.Rate}.check()
}

// Measure measures the link to a server, one part after the other. Without an error the
// result has all requested parts.
func Measure(ctx context.Context, addr string, o Options) (Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Result{}, err
	}
	c := &client{address: withPort(addr)}
	if err := c.connect(ctx, request{Kind: kindHello}, func(*session) error { return nil }); err != nil {
		return Result{}, fmt.Errorf("cannot measure %s: %w", clip(c.address), err)
	}
	r := Result{Server: c.address}
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{PartDelay, func() error { // first, while queues are empty
			d, err := c.echo(ctx, o.Time)
			r.Delay = &d
			return err
		}},
		{PartTCP, func() (err error) {
			r.TCP, err = inBothDirections(ctx, o.Time, c.send, c.receive)
			return err
		}},
		{PartUDP, func() (err error) {
			r.UDP, err = inBothDirections(ctx, c.pace(o, &r, 1), c.sendDatagrams, c.receiveDatagrams)
			return err
		}},
		{PartBursts, func() (err error) {
			r.Bursts, err = inBothDirections(ctx, c.pace(o, &r, burst), c.sendDatagrams, c.receiveDatagrams)
			return err
		}},
	} {
		if !o.wants(part.name) {
			continue
		}
		if err := part.do(); err != nil {
			if ctx.Err() != nil {
				err = errors.New("the measurement was stopped")
			}
			return Result{}, fmt.Errorf("cannot measure %s of %s: %w", part.name, clip(c.address), err)
		}
	}
	return r, nil
}

func inBothDirections[A, T any](ctx context.Context, argument A, measureOut, measureIn func(context.Context, A) (T, error)) (*PerDirection[T], error) {
	var w PerDirection[T]
	var err error
	if w.Out, err = measureOut(ctx, argument); err != nil {
		return nil, err
	}
	if w.In, err = measureIn(ctx, argument); err != nil {
		return nil, err
	}
	return &w, nil
}

// pace uses the rate of the options. If they set none, the rate is 10 Mbit/s, or half of
// the measured TCP rate if that is lower.
func (c *client) pace(o Options, r *Result, burst int) pace {
	rate := o.Rate
	if rate == 0 {
		rate = 10e6
		if r.TCP != nil {
			rate = max(min(rate, r.TCP.Out.Line/2, r.TCP.In.Line/2), 50e3)
		}
	}
	n := rate * o.Time.Seconds() / float64(8*frameSize(o.Size, c.peer.Addr()))
	return pace{packets: int(min(max(n, 1), maxPackets)), size: o.Size, burst: burst, rate: rate, time: o.Time}
}
