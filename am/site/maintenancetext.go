package site

import (
	"fmt"
	"strings"

	"patchbay/am/maintenance"
	"patchbay/inventory"
	"patchbay/inventory/suggest"
)

// DrainText is an entry of what is drained, in a line.
func DrainText(d *maintenance.Drain) string {
	text := strings.Join(d.Components, " ")
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}

// NoComponent says that there is no component of a name.
func NoComponent(inv *inventory.Inventory, name string) error {
	near := ""
	if n := suggest.Word(name, componentNames(inv)); n != "" {
		near = fmt.Sprintf("; did you mean %s?", n)
	}
	return fmt.Errorf("the inventory has no component %q%s", name, near)
}

// WindowText is what a window is about, as it was written.
func WindowText(w *maintenance.Window) string {
	if len(w.Components) == 0 {
		return "the whole site"
	}
	return strings.Join(w.Components, " ")
}

// componentNames are the first names of an inventory, for hints.
func componentNames(inv *inventory.Inventory) (names []string) {
	for _, c := range inv.Components[:min(len(inv.Components), 1000)] {
		names = append(names, c.Name)
	}
	return names
}
