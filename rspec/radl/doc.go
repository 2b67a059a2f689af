// Package radl compiles RADL, the Resource and Application Description Language of the
// Infrastructure Manager, to request RSpecs.
//
//	text or JSON ── Parse ──> *Document ── Compile ──> *generate.Request
//	*Document ── Text, JSON ──> RADL again, which parses to the same Document
//
// Parse reads and checks the document and reports all mistakes with line and column. It replaces
// parameters (@input.NAME@) first, so that a Document has none.
package radl
