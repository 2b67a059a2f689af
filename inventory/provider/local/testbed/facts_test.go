package testbed

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"patchbay/inventory"
	"patchbay/inventory/provider/local/node"
)

// factImages has the host, and an image in the folder dir.
type factImages struct {
	images
	dir string
}

func (factImages) Names() ([]string, error) { return []string{"host", "own"}, nil }

func (i factImages) Find(context.Context, string) (string, node.Image, error) {
	return "own@1", node.Image{Root: i.dir}, nil
}

func TestFactsOfImages(t *testing.T) {
	dir := t.TempDir()
	tb := newTestbed(Options{Facts: filepath.Join(dir, "local"+inventory.FactsSuffix)})
	tb.images = factImages{dir: t.TempDir()}
	known := map[string][]string{}
	read := func() []string {
		t.Helper()
		if err := tb.updateFacts(known); err != nil {
			t.Fatal(err)
		}
		facts, err := inventory.ReadFacts(dir)
		if err != nil || len(facts["local"].Images) != 2 {
			t.Fatal(facts, err)
		}
		return facts["local"].Images["host"]
	}
	if host := read(); !slices.Contains(host, "disk.0.os.name=linux") {
		t.Errorf("host: %v", host)
	}
	was, err := os.Stat(tb.o.Facts)
	if err != nil {
		t.Fatal(err)
	}
	read()
	if is, err := os.Stat(tb.o.Facts); err != nil || !os.SameFile(is, was) {
		t.Errorf("the same facts are written again: %v", err)
	}
	if err := os.WriteFile(tb.o.Facts, []byte("images: {host: [cpu.arch=vax]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if host := read(); slices.Contains(host, "cpu.arch=vax") {
		t.Errorf("a changed file stays: %v", host)
	}
}
