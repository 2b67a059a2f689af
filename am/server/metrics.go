package server

import (
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
}

func newMetrics(gauges []Gauge) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_calls_total", Help: "Requests by method and geni_code; or fault, or the HTTP status where there was no call.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "patchbay_call_seconds", Help: "Time from the end of the header to the end of the answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method"}),
		slivers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_call_slivers_total", Help: "Slivers that successful calls were about.",
		}, []string{"method"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "patchbay_calls_running", Help: "Calls being worked on.",
		}),
	}
	m.registry.MustRegister(m.calls, m.seconds, m.slivers, m.running,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, g := range gauges {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_" + g.Name, Help: g.Help}, g.Value))
	}
	return m
}

func (m *metrics) count(e *event, took time.Duration) {
	method, code := e.labels()
	m.calls.WithLabelValues(method, code).Inc()
	m.seconds.WithLabelValues(method).Observe(took.Seconds())
	if code == "0" && e.answer.Slivers > 0 {
		m.slivers.WithLabelValues(method).Add(float64(e.answer.Slivers))
	}
}
