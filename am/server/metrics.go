package server

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"patchbay/am"
)

// metrics has its own registry, so a process can have two servers.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	slivers  *prometheus.CounterVec
	running  prometheus.Gauge
	limited  *prometheus.CounterVec
}

// buckets are in seconds.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Durations is a histogram of durations with labels.
type Durations struct{ seconds *prometheus.HistogramVec }

// NewDurations returns a new histogram with the name patchbay_NAME.
func NewDurations(name, help string, labels ...string) *Durations {
	return &Durations{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_" + name, Help: help, Buckets: buckets}, labels)}
}

// Observe adds one duration with a value for each label. It may be called concurrently.
func (d *Durations) Observe(took time.Duration, values ...string) {
	d.seconds.WithLabelValues(values...).Observe(took.Seconds())
}

func newMetrics(o Options, g *connLimiter) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_calls_total", Help: "Requests by method and code: the name of the geni_code, fault, or http_STATUS for a request that was not a call.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "patchbay_call_duration_seconds", Help: "Time from the end of the header to the end of the answer.",
			Buckets: buckets,
		}, []string{"method"}),
		slivers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_call_slivers_total", Help: "Slivers in the answers of successful calls.",
		}, []string{"method"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_limited_total", Help: "Connections closed or refused, and calls answered with SERVERBUSY or aborted, by the limit.",
		}, []string{"limit"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "patchbay_calls_running", Help: "Calls in progress.",
		}),
	}
	m.registry.MustRegister(m.calls, m.seconds, m.slivers, m.running, m.limited,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, limit := range []string{limitCalls, limitPerCaller, limitBodies, limitAnswers, limitChanges, limitConnections, limitPerAddress, limitPerCertificate, limitStall} {
		m.limited.WithLabelValues(limit) // so that it is exported as 0 before its first use
	}
	for _, d := range o.Durations {
		m.registry.MustRegister(d.seconds)
	}
	numbers := append([]Number{
		{Name: "connections", Help: "Connections of clients.", Value: func() float64 { all, _ := g.count(); return float64(all) }},
		{Name: "connections_waiting", Help: "Connections without a call in progress.", Value: func() float64 { _, waiting := g.count(); return float64(waiting) }},
	}, o.Numbers...)
	for _, n := range numbers {
		m.registry.MustRegister(collector{prometheus.NewDesc("patchbay_"+n.Name, n.Help, n.Labels, nil), n})
	}
	return m
}

type collector struct {
	desc *prometheus.Desc
	Number
}

func (c collector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

func (c collector) Collect(to chan<- prometheus.Metric) {
	kind := prometheus.GaugeValue
	if c.Counter {
		kind = prometheus.CounterValue
	}
	add := func(v float64, labels ...string) {
		for i, l := range labels {
			if !utf8.ValidString(l) { // so that two invalid texts do not become the same label
				labels[i] = strconv.QuoteToASCII(l)
			}
		}
		to <- prometheus.MustNewConstMetric(c.desc, kind, v, labels...)
	}
	if c.Values != nil {
		c.Values(add)
		return
	}
	add(c.Value())
}

// count counts a request once, however often it is called. Call count before the answer is sent:
// a client that has the answer must find its call in the metrics.
func (m *metrics) count(e *event) {
	if e.counted {
		return
	}
	e.counted = true
	method, code := e.labels()
	m.calls.WithLabelValues(method, code).Inc()
	if code == am.Success.String() && e.answer.Slivers > 0 {
		m.slivers.WithLabelValues(method).Add(float64(e.answer.Slivers))
	}
}
