package compile

import (
	"patchbay/rspec"
	"patchbay/rspec/blueprint"
	"patchbay/rspec/radl"
)

// NewTemplate returns a source for an aggregate that compiles templates; nil if it is too large. r is
// the result of a compilation with o, or nil. If the request has the content of files, the source is
// packed together with them.
func NewTemplate(text []byte, o Options, r *Result) (*rspec.Template, error) {
	t := &rspec.Template{Language: o.language(text), Text: text, Parameters: o.Parameters}
	if r != nil && len(r.Files) > 0 {
		var err error
		if t.Text, err = blueprint.Pack(text, o.Files, r.Files); err != nil {
			return nil, err
		}
	}
	if len(t.Text) > rspec.MaxTemplate {
		return nil, nil
	}
	return t, nil
}

// Expand compiles a template. The earlier templates of the slice define what it refers to; those in
// other languages are left out. Expand sets the Language, Parameters and Earlier of o itself, and
// fails as Compile does.
func Expand(t rspec.Template, earlier []rspec.Template, o Options) (rspec.Expansion, error) {
	o.Language, o.Parameters, o.Earlier = t.Language, t.Parameters, nil
	for _, e := range earlier {
		if e.Language == t.Language {
			o.Earlier = append(o.Earlier, withValues(e))
		}
	}
	r, err := compileUnchecked(t.Text, o) // the caller reads the result with the other parts of the request
	if err != nil {
		return rspec.Expansion{}, err
	}
	return rspec.Expansion{Request: r.Request, Source: r.Source, Remarks: r.Remarks, Nodes: r.Nodes, Links: r.Links}, nil
}

// withValues returns the source of an earlier template in RADL with the values of its parameters. It returns the
// source of other templates as it is, and also a source that cannot be parsed.
func withValues(t rspec.Template) []byte {
	if t.Language == RADL && len(t.Parameters) > 0 {
		if d, _ := radl.Parse(t.Text, t.Parameters); d != nil {
			return d.Text()
		}
	}
	return t.Text
}
