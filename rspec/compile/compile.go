package compile

import (
	"patchbay/inventory"
	"patchbay/rspec"
)

// Languages.
const (
	RADL      = "radl"
	Blueprint = "blueprint"
)

// Options are what a compilation knows besides the source. The zero value is useful.
type Options struct {
	// Language is RADL or Blueprint; empty for the language that the text seems to have.
	Language string
	// Parameters replace @input.NAME@ in RADL.
	Parameters map[string]string
	// Site is what the aggregate offers; nil if that is unknown.
	Site *inventory.Inventory
	// Earlier are sources that were compiled for the slice before, in their order. They define
	// what the source refers to.
	Earlier [][]byte
	// Nodes and Links are the client_ids of the slice's existing nodes and links.
	Nodes, Links []string
	// Library has folders with further types of blueprints, as file systems.
	Library string
}

// Result is a compiled source.
type Result struct {
	// Request is a request RSpec.
	Request []byte
	// Source is the source without secrets. Parameters are replaced in it if it differs from
	// the source as given.
	Source []byte
	// Remarks are warnings.
	Remarks []rspec.Problem
}
