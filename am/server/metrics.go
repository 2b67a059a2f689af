package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics counts what the server has done. Its registry is its own, so two
// servers of one process do not meet.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	slivers  *prometheus.CounterVec
	running  prometheus.Gauge
	limited  *prometheus.CounterVec
}

// buckets are bounds of durations, in seconds.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Durations are a metric of how long something takes, told apart by labels.
type Durations struct{ seconds *prometheus.HistogramVec }

// NewDurations makes the metric patchbay_NAME.
func NewDurations(name, help string, labels ...string) *Durations {
	return &Durations{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "patchbay_" + name, Help: help, Buckets: buckets}, labels)}
}

// Observe counts one. It has a value for each label, and may be called at the same time.
func (d *Durations) Observe(took time.Duration, values ...string) {
	d.seconds.WithLabelValues(values...).Observe(took.Seconds())
}

func newMetrics(o Options, g *gate) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_calls_total", Help: "Requests by method and geni_code; or fault, or the HTTP status where there was no call.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "patchbay_call_seconds", Help: "Time from the end of the header to the end of the answer.",
			Buckets: buckets,
		}, []string{"method"}),
		slivers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_call_slivers_total", Help: "Slivers that successful calls were about.",
		}, []string{"method"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_limited_total", Help: "Connections ended or refused, and calls answered SERVERBUSY or cut off, by the limit they met.",
		}, []string{"limit"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "patchbay_calls_running", Help: "Calls being worked on.",
		}),
	}
	m.registry.MustRegister(m.calls, m.seconds, m.slivers, m.running, m.limited,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, d := range o.Durations {
		m.registry.MustRegister(d.seconds)
	}
	gauges := append([]Gauge{
		{Name: "connections", Help: "Connections of clients.", Value: func() float64 { all, _ := g.count(); return float64(all) }},
		{Name: "connections_waiting", Help: "Connections of which no call is worked on.", Value: func() float64 { _, waiting := g.count(); return float64(waiting) }},
	}, o.Gauges...)
	for _, g := range gauges {
		if g.Label != "" {
			m.registry.MustRegister(labelled{prometheus.NewDesc("patchbay_"+g.Name, g.Help, []string{g.Label}, nil), g.Values})
			continue
		}
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_" + g.Name, Help: g.Help}, g.Value))
	}
	return m
}

// labelled is a gauge with several numbers.
type labelled struct {
	desc   *prometheus.Desc
	values func() map[string]float64
}

func (l labelled) Describe(to chan<- *prometheus.Desc) { to <- l.desc }

func (l labelled) Collect(to chan<- prometheus.Metric) {
	for label, v := range l.values() {
		to <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, v, strings.ToValidUTF8(label, "\uFFFD"))
	}
}

// count counts a call once. It is called before the answer, so that a caller
// who has the answer finds the call counted.
func (m *metrics) count(e *event) {
	if e.counted {
		return
	}
	e.counted = true
	method, code := e.labels()
	m.calls.WithLabelValues(method, code).Inc()
	if code == "0" && e.answer.Slivers > 0 {
		m.slivers.WithLabelValues(method).Add(float64(e.answer.Slivers))
	}
}
