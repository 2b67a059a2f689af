package draw

import (
	"fmt"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

func (t *textWriter) writeOffers() {
	if n := len(t.d.SharedVLANs); n > 0 {
		t.writeLine("")
		t.writeTitle(display.Count(n, "shared VLAN"))
		tab := t.table("", "", "", "")
		tab.noHead = true
		for _, v := range first(t.d.SharedVLANs, maxLinkLines) {
			use := ""
			if v.Restricted {
				use = "restricted"
			}
			tab.add(cleaned(v.Name), prefixed("VLAN ", cleaned(v.Tag)), use, cleaned(v.Description))
		}
		tab.write()
		if more := n - maxLinkLines; more > 0 {
			t.writeLine("  and %d more", more)
		}
	}
	if s := addressCount(t.d.Addresses); s != "" {
		t.writeLine("")
		t.writeTitle(s)
	}
}

// addressCount returns a text such as "2 of 3 public addresses free", or "" if no number is known.
func addressCount(a *view.Addresses) string {
	switch {
	case a == nil || a.Available < 0 && a.Configured < 0:
		return ""
	case a.Available < 0:
		return display.Count(a.Configured, "public address")
	case a.Configured < 0:
		return display.Count(a.Available, "public address") + " free"
	}
	return fmt.Sprintf("%d of %s free", a.Available, display.Count(a.Configured, "public address"))
}

// vlanSummary returns a text such as "exchange (1750), lab".
func vlanSummary(d *view.Document) string {
	var words []string
	for i, v := range d.SharedVLANs {
		if i == maxVLANs {
			words = append(words, fmt.Sprintf("%d more", len(d.SharedVLANs)-i))
			break
		}
		word := clean(v.Name, 40)
		if v.Tag != "" {
			word += " (" + clean(v.Tag, 10) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

const maxVLANs = 5
