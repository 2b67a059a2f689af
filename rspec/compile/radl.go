package compile

import (
	"fmt"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/radl"
)

// radlDocument is a document with the earlier ones of its slice.
type radlDocument struct {
	*radl.Document
	earlier []*radl.Document
	cleaned *radl.Document
}

func parseRADL(text []byte, o Options) (document, []rspec.Problem) {
	d, problems := radl.Parse(text, o.Parameters)
	if d == nil {
		return nil, problems
	}
	r := &radlDocument{Document: d, cleaned: d}
	for i, text := range o.Earlier {
		before, wrong := radl.Parse(text, o.Parameters)
		if before == nil {
			for _, p := range wrong {
				if !p.IsRemark() {
					problems = append(problems, rspec.Problem{Kind: p.Kind, Msg: fmt.Sprintf("earlier source %d, line %d: %s", i+1, p.Line, p.Msg), Remedy: p.Remedy})
				}
			}
			continue
		}
		r.earlier = append(r.earlier, before)
	}
	if newError(problems) != nil {
		return nil, problems
	}
	return r, problems
}

func (r *radlDocument) withoutSecrets() ([]byte, []rspec.Problem) {
	cleaned, removed := r.WithoutSecrets()
	r.cleaned = cleaned
	if len(removed) == 0 {
		return nil, nil
	}
	return cleaned.Text(), removed
}

func (r *radlDocument) toRequest(o Options) (*generate.Request, []rspec.Problem) {
	return radl.Compile(r.cleaned, radl.Options{Site: o.Site, Earlier: r.earlier, Nodes: o.Nodes, Links: o.Links, GivesAddresses: o.GivesAddresses, Work: o.Work})
}
