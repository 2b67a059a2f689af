package importad

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
)

// addSliverType returns nil for a type without a name. If the type is known, it adds
// the node's images to that type.
func (d *draft) addSliverType(o offer) *sliverType {
	if oneLine(o.name) == "" {
		d.remarks.add("sliver types without a name, left out", "", 1)
		return nil
	}
	t := d.byType[o.name]
	if t == nil {
		t = &sliverType{name: validName(o.name), has: map[*disk]bool{}, capabilities: d.capabilities(o.capabilities, false)}
		if d.typeNames[t.name] {
			d.remarks.add("sliver types whose names differ only in invalid characters; they are one here", t.name, 1)
			t = d.types[slices.IndexFunc(d.types, func(x *sliverType) bool { return x.name == t.name })]
		} else {
			d.typeNames[t.name] = true
			d.types = append(d.types, t)
		}
		d.byType[o.name] = t
		if old := oneLine(o.name); old != t.name && t.alias == "" && !strings.ContainsAny(old, "*?") {
			t.alias = old
		}
	}
	before, offered := len(t.images), map[*disk]bool{}
	for _, x := range o.images {
		i := d.addImage(x)
		if i == nil {
			continue
		}
		offered[i] = true
		if !t.has[i] {
			t.has[i] = true
			t.images = append(t.images, i)
		}
		if x.preferred && t.preferred == nil {
			t.preferred = i
		}
	}
	t.differs = t.differs || t.nodes > 0 && (len(offered) != before || len(t.images) != before)
	t.nodes++
	return t
}

// addImage returns the known image if one has the same name or URN, and nil if the
// image has no valid name.
func (d *draft) addImage(x disk) *disk {
	name := validName(cmp.Or(x.name, x.url))
	if known := d.byImage[cmp.Or(x.name, x.url)]; known != nil {
		return known
	}
	u, err := urn.Parse(name)
	switch {
	case name == "":
		d.remarks.add("disk images without a name, left out", "", 1)
		return nil
	case err == nil && u.Type == urn.Image:
		name = u.String()
	case strings.HasPrefix(strings.ToLower(name), "urn:"):
		d.remarks.add("disk images whose name is a URN, but not that of an image, left out", fmt.Sprintf("%.80q", name), 1)
		return nil
	default:
		u = urn.URN{Authority: d.authority, Type: urn.Image, Name: urn.Transcribe(name)}
		if u, err = urn.Parse(u.String()); err != nil {
			d.remarks.add("disk images whose name is too long, left out", fmt.Sprintf("%.80q", name), 1)
			return nil
		}
	}
	for _, key := range []string{name, u.Key()} {
		if known := d.byImage[key]; known != nil {
			return known
		}
	}
	i := &disk{name: name, os: oneLine(x.os), version: oneLine(x.version), description: oneLine(x.description), preferred: x.preferred, valid: d.capabilities(x.capabilities, true)}
	if url := validName(x.url); url != "" && url != name && d.byImage[url] == nil && !d.urls[url] {
		i.url = url
		d.urls[url] = true
	}
	for _, key := range []string{cmp.Or(x.name, x.url), name, u.Key()} {
		d.byImage[key] = i
	}
	d.images = append(d.images, i)
	return i
}

func (d *draft) addDefaultType() {
	t := &sliverType{name: "raw-pc", alias: "*"}
	for _, i := range d.images {
		t.images = append(t.images, i)
		if i.preferred && t.preferred == nil {
			t.preferred = i
		}
	}
	d.types = append(d.types, t)
	d.remarks.add("sliver type added, since the advertisement has none; it accepts every type that a request names", t.name, 1)
}

// defaultType returns raw-pc, as GENI defines, or else the most frequent type.
func (d *draft) defaultType() *sliverType {
	best := d.types[0]
	for _, t := range d.types {
		if t.name == "raw-pc" {
			return t
		}
		if t.nodes > best.nodes {
			best = t
		}
	}
	return best
}
