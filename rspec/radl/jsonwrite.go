package radl

import (
	"bytes"
	"encoding/json"
	"strconv"

	"patchbay/rspec/match"
)

// JSON returns the document in its JSON form. Sizes are bytes.
func (d *Document) JSON() []byte {
	all := []any{}
	add := func(class string, blocks ...Block) {
		for i := range blocks {
			all = append(all, jsonBlock(class, &blocks[i]))
		}
	}
	if d.Description != nil {
		add("description", *d.Description)
	}
	add("ansible", d.Ansibles...)
	add("network", d.Networks...)
	add("system", d.Systems...)
	for i := range d.Recipes {
		r := &d.Recipes[i]
		m := map[string]any{"class": "configure", "id": r.ID}
		if r.IsReference {
			m["reference"] = true
		} else {
			m["recipes"] = r.Text
		}
		all = append(all, m)
	}
	if d.Plan != nil {
		all = append(all, jsonPlan(d.Plan))
	}
	for _, x := range d.Deploys {
		m := map[string]any{"class": "deploy", "system": x.System, "vm_number": x.Count}
		if x.Cloud != "" {
			m["cloud"] = x.Cloud
		}
		all = append(all, m)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		panic(err) // cannot happen: all are texts and numbers
	}
	return b.Bytes()
}

func jsonBlock(class string, b *Block) map[string]any {
	m := map[string]any{"class": class, "id": b.ID}
	if b.IsReference {
		m["reference"] = true
	}
	jsonFeatures(m, b.Features)
	if len(b.Soft) > 0 {
		var softs []any
		for _, s := range b.Soft {
			items := map[string]any{}
			jsonFeatures(items, s.Features)
			softs = append(softs, map[string]any{"weight": s.Weight, "items": []any{items}})
		}
		m["softs"] = softs
	}
	return m
}

func jsonPlan(p *Plan) map[string]any {
	items := []any{}
	for _, x := range p.Items {
		i := map[string]any{"system": x.System, "configure": x.Recipe}
		if x.Step > 0 {
			i["step"] = x.Step
		}
		if x.Tool != "" {
			i["ctxt_tool"] = x.Tool
		}
		items = append(items, i)
	}
	m := map[string]any{"class": "contextualize", "items": items}
	if p.Deadline > 0 {
		m["max_time"] = p.Deadline
	}
	if len(p.Options) > 0 {
		options := map[string]any{}
		jsonFeatures(options, p.Options)
		m["options"] = options
	}
	return m
}

// jsonFeatures adds features to an object. Repeated features with contains become one array.
func jsonFeatures(m map[string]any, list []Feature) {
	for i := range list {
		f := &list[i]
		name := f.Name
		for _, s := range suffixes {
			if f.Op == s.op {
				name += s.suffix
			}
		}
		switch f.Value.Kind {
		case Number:
			if m[name] = json.Number(plainNumber(f.Value)); f.Value.Unit != "" && !isSizeUnit(f.Value.Unit) {
				m[name] = f.Value.String()
			}
		case List:
			m[name] = f.Value.List
		case Group:
			group := map[string]any{}
			jsonFeatures(group, f.Value.Group)
			have, _ := m[name].([]any)
			m[name] = append(have, group)
		default:
			m[name] = f.Value.Text
		}
	}
}

// plainNumber returns sizes as bytes, and other numbers as written.
func plainNumber(v Value) string {
	if v.Unit != "" && isSizeUnit(v.Unit) {
		if n, err := match.SizeOf(v.Number + v.Unit); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return v.Number
}
