package site

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/audit"
	"patchbay/am/operate"
	"patchbay/am/store"
)

// TestClientOfUnservedSite sends requests to a site without a server.
func TestClientOfUnservedSite(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	list := func() (string, error) {
		var b strings.Builder
		err := Connect(c).List(t.Context(), "journal", operate.Filter{}, &b)
		return b.String(), err
	}
	if _, err := list(); !errors.Is(err, ErrNeverServed) {
		t.Errorf("without a store: %v", err)
	}
	held, err := c.OpenState() // creates the store
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list(); !errors.Is(err, store.ErrLocked) {
		t.Errorf("while another process has the store: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	note := func(text string) error {
		served, err := Connect(c).Order(t.Context(), "/note", operate.Note{Event: "drain", Text: text, Operator: "alice"}, new(operate.Result))
		if served {
			t.Error("the order was served")
		}
		return err
	}
	if err := note("pc1"); err != nil {
		t.Fatal(err)
	}
	if rows, err := list(); err != nil || !strings.Contains(rows, `"pc1"`) {
		t.Errorf("the journal has %q, %v", rows, err)
	}
	if seen, err := audit.Seen(c.Audit); err != nil || seen == 0 {
		t.Errorf("the audit has %d lines, %v", seen, err)
	}
	if err := note("a\nb"); err == nil || strings.Contains(err.Error(), "served") {
		t.Errorf("a note of two lines: %v", err)
	}
	if err := Connect(c).Ask(t.Context(), "/hooks", new(any)); !errors.Is(err, ErrNotServed) {
		t.Errorf("a request that needs a server: %v", err)
	}
}
