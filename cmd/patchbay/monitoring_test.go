package main

import (
	"strconv"
	"strings"
	"testing"
)

// metric is the sum of the values of a metric whose labels have all of these, each as
// NAME="VALUE", in the text of /metrics. The metric must be there.
func metric(t testing.TB, text, name string, labels ...string) (sum float64) {
	t.Helper()
	found := false
lines:
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("no metric %s with %v in:\n%s", name, labels, text)
	}
	return sum
}
