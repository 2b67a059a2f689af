package rspec

import (
	"slices"
	"strconv"
	"strings"
)

// pair is a namespace and where its schema is published.
type pair struct{ space, schema string }

// schemaLocation is the root's attribute as it is written.
func (d *document) schemaLocation() (raw string, found bool) {
	list, _ := d.attributes(d.elements[0])
	for _, a := range list {
		if a.of != nil && a.of.Local == "schemaLocation" && a.of.Space == xsiSpace {
			return string(d.src[a.from:a.to]), true
		}
	}
	return "", false
}

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
	if !slices.Contains(wanted, ManifestSchema) {
		add = append([]pair{{Namespace, ManifestSchema}}, add...)
	}
	for _, p := range add {
		if !slices.Contains(wanted, p.space) || p.space == Namespace && !slices.Contains(wanted, ManifestSchema) {
			b.WriteString(" " + p.space + " " + p.schema)
			wanted = append(wanted, p.space, p.schema)
		}
	}
	b.WriteString(rest)
	return b.String()
}

// xsiPrefix is a prefix that is bound to the namespace of schemaLocation, or one
// that is free.
func xsiPrefix(spaces map[string]string) string {
	var bound []string
	for prefix, uri := range spaces {
		if uri == xsiSpace && prefix != "" {
			bound = append(bound, prefix)
		}
	}
	if len(bound) > 0 {
		return slices.Min(bound)
	}
	prefix := "xsi"
	for n := 1; spaces[prefix] != ""; n++ {
		prefix = "xsi" + strconv.Itoa(n)
	}
	return prefix
}
