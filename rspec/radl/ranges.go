package radl

import (
	"net/netip"
	"strconv"
	"strings"

	"patchbay/rspec"
)

// maxTries limits the values of wildcards that are tried for all networks of a document.
const maxTries = 4096

// chooseRanges sets the address ranges of the networks, document by document, so that a network
// keeps its range when later documents come. A * becomes the first number for which no other
// network has the range.
func (c *compiler) chooseRanges(documents []*Document) {
	var used []netip.Prefix
	for _, doc := range documents {
		var wildcards []*Block
		for i := range doc.Networks {
			b := &doc.Networks[i]
			text := b.text("cidr")
			if b.IsReference || text == "" || c.networkBlocks[b.ID] != b {
				continue
			}
			if strings.Contains(text, "*") {
				wildcards = append(wildcards, b)
			} else if p, ok := c.parseRange(b, text); ok {
				c.ranges[b.ID] = p
				used = append(used, p)
			}
		}
		cursors := map[string]int{} // the next value to try, by text
		tries := 0
		for _, b := range wildcards {
			text := b.text("cidr")
			if _, ok := c.parseRange(b, strings.ReplaceAll(text, "*", "0")); !ok {
				continue
			}
			free := false
			for size := 1 << (8 * strings.Count(text, "*")); !free && cursors[text] < size && tries < maxTries; tries++ {
				p := rangeOf(text, cursors[text])
				cursors[text]++
				if free = p.IsValid() && !overlaps(p, used); free {
					c.ranges[b.ID] = p
					used = append(used, p)
				}
			}
			if f, _ := b.find("cidr"); !free {
				c.refuse(rspec.TooBig, f.Place, "give it a range of its own", "network %.80q: other networks use all ranges of %.40q", b.ID, text)
			}
		}
	}
}

// parseRange parses a range of addresses for nodes, and refuses other texts.
func (c *compiler) parseRange(b *Block, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err == nil {
		p = p.Masked()
	}
	a := p.Addr()
	if err != nil || p.Bits() < 8 || strings.Count(text, "*") > 3 || a.Is4In6() || a.IsMulticast() || a.IsLoopback() || a.Is4() && a.As4()[0] == 0 {
		f, _ := b.find("cidr")
		c.refuse(rspec.BadArgs, f.Place, "write one such as 10.0.0.0/24", "network %.80q: cidr %.80q is not a range of addresses for nodes", b.ID, text)
		return p, false
	}
	return p, true
}

// rangeOf replaces the wildcards by the bytes of number, the last one by the lowest byte.
func rangeOf(text string, number int) netip.Prefix {
	for {
		i := strings.LastIndexByte(text, '*')
		if i < 0 {
			p, _ := netip.ParsePrefix(text)
			return p.Masked()
		}
		text = text[:i] + strconv.Itoa(number&0xff) + text[i+1:]
		number >>= 8
	}
}

func overlaps(p netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		if p.Overlaps(u) {
			return true
		}
	}
	return false
}
