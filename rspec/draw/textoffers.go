package draw

import (
	"fmt"
	"strings"
)

// offers are the shared VLANs and public addresses of an advertisement.
func (t *textWriter) offers() {
	if n := len(t.p.SharedVLANs); n > 0 {
		t.line("")
		t.title(count(n, "shared VLAN"))
		tab := t.table("", "", "", "")
		tab.bare = true
		for _, v := range first(t.p.SharedVLANs, mostLinkLines) {
			use := ""
			if v.Restricted {
				use = "restricted"
			}
			tab.add(full(v.Name), prefixed("VLAN ", full(v.Tag)), use, full(v.Description))
		}
		tab.write()
		if more := n - mostLinkLines; more > 0 {
			t.line("  and %d more", more)
		}
	}
	if s := t.p.Addresses.String(); s != "" {
		t.line("")
		t.title(s)
	}
}

// String is "2 of 3 public addresses free"; empty where nothing is known.
func (a *Addresses) String() string {
	switch {
	case a == nil || a.Available < 0 && a.Configured < 0:
		return ""
	case a.Available < 0:
		return count(a.Configured, "public address")
	case a.Configured < 0:
		return count(a.Available, "public address") + " free"
	}
	return fmt.Sprintf("%d of %s free", a.Available, count(a.Configured, "public address"))
}

// vlanSummary names the shared VLANs with their tags: "exchange (1750), lab".
func (p *Picture) vlanSummary() string {
	var words []string
	for i, v := range p.SharedVLANs {
		if i == mostVLANs {
			words = append(words, fmt.Sprintf("%d more", len(p.SharedVLANs)-i))
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

// mostVLANs are named in a heading.
const mostVLANs = 5
