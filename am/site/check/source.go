package check

import (
	"context"
	"errors"
	"fmt"

	"patchbay/rspec"
	"patchbay/rspec/compile"
)

// source compiles a source, for the site if there is one, and checks the resulting request.
func (k *Checker) source(ctx context.Context, name string, text []byte) {
	var o compile.Options
	if k.Config != nil {
		var err error
		if o, err = k.Config.CompileOptions(); err != nil {
			k.Errors(err)
			return
		}
	}
	o.Parameters, o.Work = k.Parameters, rspec.NewWork(ctx)
	if name != standardInput {
		folder, err := compile.OpenFolder(name)
		if err != nil {
			k.Errors(err)
			return
		}
		defer folder.Close()
		o.Files = folder
	}
	r := diagnosis{name: name, text: text}
	compiled, err := compile.Compile(text, o)
	if wrong, ok := errors.AsType[*compile.Error](err); ok {
		r.addProblems(wrong.Problems)
		k.report(&r)
		return
	}
	if err != nil {
		k.bad(name, "%v", err)
		return
	}
	r.addProblems(compiled.Remarks)
	r.terms = compiled.Terms
	k.request(ctx, &r, compiled.Request, nil)
}

// compileTemplates compiles the templates of a request without a site, and adds their problems. It
// returns the request with the results, or after a mistake the request as it was.
func (r *diagnosis) compileTemplates(ctx context.Context, req *rspec.Request) *rspec.Request {
	var results []rspec.Expansion
	o := compile.Options{Work: rspec.NewWork(ctx)}
	for i, t := range req.Templates {
		x, err := compile.Expand(t, req.Templates[:i], o)
		problems := x.Remarks
		if wrong, ok := errors.AsType[*compile.Error](err); ok {
			problems = wrong.Problems
		} else if err != nil {
			problems = []rspec.Problem{{Kind: rspec.BadArgs, Msg: err.Error()}}
		}
		for _, p := range problems {
			r.add(diagnostic{t.Line, t.Column, !p.IsRemark(), fmt.Sprintf("line %d:%d of the template: %s", p.Line, p.Column, p.Text())})
		}
		results = append(results, x)
		o.Nodes, o.Links = append(o.Nodes, x.Nodes...), append(o.Links, x.Links...)
	}
	if len(results) == 0 || r.errors > 0 {
		return req
	}
	text, err := req.Expand(results)
	if err == nil {
		var expanded *rspec.Request
		if expanded, err = rspec.ParseRequest(text, req.Options()); err == nil {
			return expanded
		}
	}
	r.add(diagnostic{0, 0, true, err.Error()})
	return req
}
