package rspec

import (
	"slices"
	"strings"
)

// pair is a namespace and where its schema is published.
type pair struct{ space, schema string }

// pairsOf are the pairs of an attribute as it is written.
func pairsOf(raw string) []pair {
	var list []pair
	words := strings.Fields(raw)
	for i := 0; i+1 < len(words); i += 2 {
		if strings.ContainsAny(words[i]+words[i+1], `"'`) {
			continue // would end the attribute that it is put in
		}
		list = append(list, pair{words[i], words[i+1]})
	}
	return list
}

// manifestLocations turns a request's schema locations into a manifest's: the
// RSpec schema is the manifest's, other words stay, and pairs of namespaces that
// are not there yet are added. It works on the text as written, whose white
// space stays.
func manifestLocations(raw string, add []pair) string {
	words := strings.Fields(raw)
	wanted := slices.Clone(words)
	for i, w := range words {
		isSchema := i%2 == 1 && words[i-1] == Namespace
		if isSchema || w == RequestSchema || w == AdSchema {
			wanted[i] = ManifestSchema
		}
	}
	var b strings.Builder
	rest := raw
	for i, w := range words {
		at := strings.Index(rest, w)
		b.WriteString(rest[:at] + wanted[i])
		rest = rest[at+len(w):]
	}
	there := map[string]bool{}
	for _, w := range wanted {
		there[w] = true
	}
	if !there[ManifestSchema] {
		b.WriteString(" " + Namespace + " " + ManifestSchema)
		there[Namespace] = true
	}
	for _, p := range add {
		if !there[p.space] {
			b.WriteString(" " + p.space + " " + p.schema)
			there[p.space] = true
		}
	}
	b.WriteString(rest)
	return b.String()
}
