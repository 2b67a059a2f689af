package radl

import (
	"fmt"
	"strconv"
	"strings"
)

// Text returns the document as text. Parse reads the same document from it.
func (d *Document) Text() []byte {
	var b strings.Builder
	if d.Description != nil {
		writeBlock(&b, "description", d.Description)
	}
	for _, x := range []struct {
		class  string
		blocks []Block
	}{{"ansible", d.Ansibles}, {"network", d.Networks}, {"system", d.Systems}} {
		for i := range x.blocks {
			writeBlock(&b, x.class, &x.blocks[i])
		}
	}
	for i := range d.Recipes {
		switch r := &d.Recipes[i]; {
		case r.IsReference:
			fmt.Fprintf(&b, "configure %s\n\n", r.ID)
		case r.Text == "":
			fmt.Fprintf(&b, "configure %s ()\n\n", r.ID)
		default:
			fmt.Fprintf(&b, "configure %s (\n@begin\n%s@end\n)\n\n", r.ID, r.Text)
		}
	}
	if d.Plan != nil {
		writePlan(&b, d.Plan)
	}
	for _, x := range d.Deploys {
		fmt.Fprintf(&b, "deploy %s %d", x.System, x.Count)
		if x.Cloud != "" {
			b.WriteString(" " + quoted(x.Cloud))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func writeBlock(b *strings.Builder, class string, x *Block) {
	b.WriteString(class + " " + x.ID)
	if x.IsReference {
		b.WriteString("\n\n")
		return
	}
	b.WriteString(" (")
	writeFeatures(b, x.Features)
	and := len(x.Features) > 0
	for _, s := range x.Soft {
		if and {
			b.WriteString(" and")
		}
		b.WriteString("\n  soft " + strconv.Itoa(s.Weight) + " (")
		writeFeatures(b, s.Features)
		b.WriteString(")")
		and = true
	}
	b.WriteString(")\n\n")
}

func writeFeatures(b *strings.Builder, list []Feature) {
	for i := range list {
		if i > 0 {
			b.WriteString(" and")
		}
		b.WriteString("\n  ")
		writeFeature(b, &list[i])
	}
}

func writeFeature(b *strings.Builder, f *Feature) {
	b.WriteString(f.Name + " " + f.Op + " ")
	switch f.Value.Kind {
	case Number:
		b.WriteString(f.Value.Number + f.Value.Unit)
	case List:
		var texts []string
		for _, text := range f.Value.List {
			texts = append(texts, quoted(text))
		}
		b.WriteString("[" + strings.Join(texts, ", ") + "]")
	case Group:
		b.WriteByte('(')
		for i := range f.Value.Group {
			if i > 0 {
				b.WriteString(" and ")
			}
			writeFeature(b, &f.Value.Group[i])
		}
		b.WriteByte(')')
	default:
		b.WriteString(quoted(f.Value.Text))
	}
}

// quoted returns a text in single quotes.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `\'`) + "'" }

func writePlan(b *strings.Builder, p *Plan) {
	b.WriteString("contextualize ")
	if p.Deadline > 0 {
		fmt.Fprintf(b, "%d ", p.Deadline)
	}
	b.WriteString("(\n")
	for i := range p.Options {
		b.WriteString("  option ")
		writeFeature(b, &p.Options[i])
		b.WriteByte('\n')
	}
	for _, x := range p.Items {
		fmt.Fprintf(b, "  system %s configure %s", x.System, x.Recipe)
		if x.Step > 0 {
			fmt.Fprintf(b, " step %d", x.Step)
		}
		if x.Tool != "" {
			b.WriteString(" with " + x.Tool)
		}
		b.WriteByte('\n')
	}
	b.WriteString(")\n\n")
}
