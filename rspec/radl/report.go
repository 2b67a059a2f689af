package radl

import (
	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// report collects the problems of a document.
type report struct{ generate.Report }

// refuse records a mistake.
func (r *report) refuse(kind rspec.Kind, at Place, remedy, format string, args ...any) {
	r.Refuse(kind, at.Line, at.Column, remedy, format, args...)
}

// warn records a warning.
func (r *report) warn(at Place, remedy, format string, args ...any) {
	r.refuse(0, at, remedy, format, args...)
}
