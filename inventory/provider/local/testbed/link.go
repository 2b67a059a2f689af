package testbed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/provider/local/fabric"
)

// member is a node with its interfaces, as input of planLinks.
type member struct {
	id     string
	ifaces []iface
}

// link is a link with all its ends. Each end is one interface of a node.
type link struct {
	fabric.Link
	name string // as named by the experimenter; empty for an interface without a link
	// conflict is the reason why the ends contradict each other, "" if they do not.
	conflict string
	// endsByClientID holds the ids of ends by client_id. A default shape applies towards all
	// ends that no property names; defaultShapes holds the index in Shapes of each default
	// shape, by its values.
	endsByClientID map[string][]string
	defaultShapes  map[shaping]int
}

type shaping struct {
	rate  int64
	delay time.Duration
	loss  float64
}

// shaping returns the values of a property in the units of package fabric.
func (p *property) shaping() shaping {
	return shaping{p.Capacity, time.Duration(p.Latency * float64(time.Millisecond)), p.PacketLoss / 100}
}

// linkID is unique within the slice: readable characters of the name and a hash.
func linkID(name string) string {
	sum := sha256.Sum256([]byte(name))
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", r) {
			return r
		}
		return -1
	}, name)
	return plain[:min(len(plain), 20)] + "-" + hex.EncodeToString(sum[:8])
}

// linkID returns the id of a separate link if the interface has no link.
func (f *iface) linkID(node string) string {
	if f.link == "" {
		return linkID("\x00" + node + "\x00" + f.clientID)
	}
	return linkID(f.link)
}

// endID returns the interface's id within its slice.
func (f *iface) endID(node string) string { return node + "/" + f.name }

// planLinks returns the links by link id. The ends of each link are sorted by node id.
func planLinks(slice string, members []member) map[string]*link {
	all := map[string]*link{}
	members = slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.id, b.id) })
	each := func(do func(m *member, f *iface)) {
		for i := range members {
			for j := range members[i].ifaces {
				if f := &members[i].ifaces[j]; !f.control {
					do(&members[i], f)
				}
			}
		}
	}
	each(func(m *member, f *iface) {
		id := f.linkID(m.id)
		l := all[id]
		if l == nil {
			l = &link{Link: fabric.Link{Slice: slice, Name: id, Shared: f.shared}, name: f.link, endsByClientID: map[string][]string{}, defaultShapes: map[shaping]int{}}
			all[id] = l
		}
		if f.shared != l.Shared && l.conflict == "" {
			l.conflict = fmt.Sprintf("one of its nodes has it on %s, and another on %s", describeVLAN(l.Shared), describeVLAN(f.shared))
		}
		l.Ends = append(l.Ends, fabric.End{ID: f.endID(m.id), MAC: macOf(m.id, f.clientID), Addresses: f.addresses, IfName: f.name})
		l.endsByClientID[f.clientID] = append(l.endsByClientID[f.clientID], f.endID(m.id))
	})
	each(func(m *member, f *iface) { all[f.linkID(m.id)].addShapes(f.endID(m.id), f.properties) })
	for _, l := range all {
		for _, i := range l.defaultShapes {
			if s := &l.Shapes[i]; len(s.From) == len(l.Ends) {
				s.From = nil // from all ends
			}
		}
	}
	return all
}

func describeVLAN(name string) string {
	if name == "" {
		return "no shared VLAN"
	}
	return "the shared VLAN " + quoteName(name)
}

// withDefaults replaces zero values by those of o.
func (m shaping) withDefaults(o shaping) shaping {
	return shaping{cmp.Or(m.rate, o.rate), cmp.Or(m.delay, o.delay), cmp.Or(m.loss, o.loss)}
}

// addShapes adds the shapes for frames from the end sender. Ends with the same default share
// one shape, so the number of shapes does not grow with the number of interfaces.
func (l *link) addShapes(sender string, properties []property) {
	var general shaping
	for _, p := range properties {
		if len(p.To) == 0 {
			general = general.withDefaults(p.shaping())
		}
	}
	// Properties without To apply towards the ends that no other property names. On a shared
	// VLAN they apply towards all ends, since not all ends are known.
	only := general != (shaping{}) && l.Shared == ""
	for _, p := range properties {
		m := p.shaping()
		if len(p.To) == 0 || m == (shaping{}) && !only {
			continue
		}
		s := fabric.Shape{From: []string{sender}, Rate: m.rate, Delay: m.delay, Loss: m.loss, Only: only}
		for _, id := range p.To {
			ends := l.endsByClientID[id]
			if len(ends) > 1 && l.conflict == "" {
				l.conflict = fmt.Sprintf("a property names the interface %s, but several of its interfaces have that client_id; rename them", quoteName(id))
			}
			if len(ends) == 1 && ends[0] != sender {
				s.To = append(s.To, ends[0])
			}
		}
		if len(s.To) > 0 { // towards existing ends
			l.Shapes = append(l.Shapes, s)
		}
	}
	if general == (shaping{}) {
		return
	}
	if i, ok := l.defaultShapes[general]; ok {
		l.Shapes[i].From = append(l.Shapes[i].From, sender)
		return
	}
	l.defaultShapes[general] = len(l.Shapes)
	l.Shapes = append(l.Shapes, fabric.Shape{From: []string{sender}, Rate: general.rate, Delay: general.delay, Loss: general.loss})
}

func (l *link) title(f *iface) string {
	if l.name == "" {
		return "interface " + quoteName(f.clientID)
	}
	return "link " + quoteName(l.name)
}

func (l *link) conflictMessage(f *iface) string {
	return fmt.Sprintf("%s has conflicting ends: %s", l.title(f), l.conflict)
}

func (l *link) refusalMessage(f *iface, err error) string {
	if no, ok := errors.AsType[*fabric.UnsupportedError](err); ok {
		return fmt.Sprintf("%s requests %s, which this host cannot provide: %s", l.title(f), no.Property, no.Reason)
	}
	return fmt.Sprintf("%s cannot be created: %v", l.title(f), err)
}
