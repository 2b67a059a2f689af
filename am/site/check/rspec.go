package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/binder"
	"patchbay/am/service/maintenance"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/step"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// document checks an RSpec of any kind. An error means that the site would refuse the RSpec.
// Violations of the schema, and remarks on an accepted request, are warnings.
func (k *Checker) document(ctx context.Context, name string, text []byte) {
	kind, findings, err := validate(text)
	if err != nil || kind == schemas.Request {
		k.request(ctx, &diagnosis{name: name, text: text}, text, findings) // request reports errors more precisely
		return
	}
	r := diagnosis{name: name, text: text}
	r.addFindings(findings)
	k.report(&r)
	if kind == schemas.Manifest {
		k.good(name, "a valid manifest; to request the same again, change its type to request")
		return
	}
	k.good(name, "a valid %s", kind)
}

// maxDocument limits, in bytes, an advertisement or manifest. Requests have the site's limits.
const maxDocument = 256 << 20

// validate checks a document by the schema of its kind, which the root element states.
func validate(text []byte) (kind schemas.Kind, findings []xmltree.Finding, err error) {
	limits := xmltree.Limits{Bytes: maxDocument, Elements: maxDocument / 16}
	err = xmltree.Parse(text, limits, func(d *xmltree.Doc) (err error) {
		if kind, err = d.Kind(); err == nil {
			findings = d.Validate(xmltree.Known(kind))
		}
		return err
	})
	return kind, findings, err
}

// request checks a request by the rules of the site. It also checks whether the request would fit
// on the components in service if the site had no slivers, and runs the dry runs of Allocate. It
// adds to the findings of r and reports them.
func (k *Checker) request(ctx context.Context, r *diagnosis, text []byte, findings []xmltree.Finding) {
	name := r.name
	options := rspec.ReadOptions{CopyCrossLinks: true} // without a site, links to other aggregates are accepted
	var inv *inventory.Inventory
	var plan *maintenance.Plan
	if k.Config != nil {
		var err error
		if inv, plan, err = k.load(); err != nil {
			k.Errors(err)
			return
		}
		options = k.Config.ReadOptions(inv)
	}
	req, err := r.parse(text, options)
	var asked []string
	if err == nil && inv != nil {
		var binding binder.Binding
		if req, binding, asked = k.preview(ctx, r, req, inv, plan, checkSlice(inv), r.errors == 0); r.errors == 0 {
			r.addMissingPrograms(binding, k.Config.Providers, "/usr")
		}
	}
	if err == nil && inv == nil && r.errors == 0 {
		req = r.compileTemplates(ctx, req)
	}
	if err == nil && r.errors == 0 {
		k.printPlan(name, req)
	}
	r.addFindings(findings)
	k.report(r)
	switch {
	case r.errors > 0:
	case req.IsEmpty():
		k.good(name, "a valid request, which reserves nothing")
	case inv == nil && k.siteFailed:
		k.good(name, "a valid request; whether the site can serve it was not checked, because of the mistakes in its configuration")
	case inv == nil:
		k.good(name, "a valid request; give --config to check whether a site can serve it")
	default:
		dryRun := ""
		if len(asked) > 0 {
			dryRun = "; a dry run of " + strings.Join(asked, ", ") + " succeeded"
		}
		k.good(name, "%s and %s for this site; the request fits when enough resources are free%s", display.Count(len(req.Nodes), "node"), display.Count(len(req.Links), "link"), dryRun)
	}
}

// load reads what requests are checked against.
func (k *Checker) load() (*inventory.Inventory, *maintenance.Plan, error) {
	plan, planErr := maintenance.Read(k.Config.Maintenance)
	inv, err := k.Config.LoadInventory()
	return inv, plan, errors.Join(planErr, err)
}

// printPlan prints the steps of all nodes, if they have an order or an operation.
func (k *Checker) printPlan(name string, req *rspec.Request) {
	nodes, names := make([]step.Node, len(req.Nodes)), make([]string, len(req.Nodes))
	for i := range req.Nodes {
		n := &req.Nodes[i]
		nodes[i], names[i] = step.Node{ClientID: n.ClientID, Services: &n.Services}, n.ClientID
	}
	plan := step.Plan("", nodes, nil)
	if !step.IsStaged(plan) {
		return
	}
	for _, line := range step.Outline(names, plan) {
		k.note(name, "%s", line)
	}
	if req.SetupLimit > 0 {
		k.note(name, "all stages must end within %s", display.Duration(req.SetupLimit))
	}
}

// parse returns the request, and adds what is wrong with it. If the request has mistakes, parse
// accepts everything readable, so that more errors are found.
func (r *diagnosis) parse(text []byte, options rspec.ReadOptions) (*rspec.Request, error) {
	_, problems := rspec.Check(text, options)
	r.addProblems(problems)
	options.Stored = r.errors > 0
	return rspec.ParseRequest(text, options)
}

// preview does what Allocate does up to the reservation, as if the site had no slivers, and adds its
// errors. Then it adds warnings about parts that the site would ignore or fulfil in another way. A
// node that a provider can never create is an error. A node that it cannot create now, and a missing
// answer, are warnings. Without errors and warnings of dry runs, asked has the providers that made
// one. Without dryRuns, no provider is asked.
func (k *Checker) preview(ctx context.Context, r *diagnosis, req *rspec.Request, inv *inventory.Inventory, plan *maintenance.Plan, slice urn.URN, dryRuns bool) (expanded *rspec.Request, b binder.Binding, asked []string) {
	r.addReasons(req, unknownFeatures(req, inv), false)
	if len(req.Nodes) == 0 && r.errors > 0 {
		return req, b, nil // the errors explain why there are no nodes
	}
	log := slog.New(slog.NewTextHandler(k.Err, nil))
	svc, asks := k.Config.Previewer(inv, plan, dryRuns, log)
	p, err := svc.Preview(ctx, req, slice)
	for _, text := range p.Notices {
		r.add(diagnostic{0, 0, false, text})
	}
	if p.Request != req { // it was compiled, so its lines are not those of r.text
		was := r.terms
		r.terms = cmp.Or(was, new(strings.Replacer))
		defer func() { r.terms = was }()
	}
	if unsatisfied, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
		r.addReasons(p.Request, unsatisfied.Reasons, true)
		return p.Request, p.Binding, nil
	}
	if wrong, ok := errors.AsType[*rspec.RequestError](err); ok { // in templates
		r.addProblems(wrong.Problems)
		return p.Request, p.Binding, nil
	}
	if err != nil {
		r.add(diagnostic{0, 0, true, err.Error()})
		return p.Request, p.Binding, nil
	}
	if len(p.Request.Nodes) == 0 {
		if r.terms == nil { // else the compiler says what to add
			r.add(diagnostic{0, 0, false, p.Request.NoNodesReason(inv.Manager)})
		}
		return p.Request, p.Binding, nil
	}
	remarks := exclusiveWarnings(p.Binding)
	for _, x := range p.Remarks {
		remarks = append(remarks, binder.Reason{Kind: x.Kind, ClientID: x.ClientID, What: x.What, Text: x.Text})
	}
	r.addReasons(p.Request, remarks, false)
	for _, x := range p.Refused {
		isFinal := x.Code == am.Unsupported
		if !isFinal {
			x.Text += "; this may change, and Allocate asks again"
		}
		r.addReasons(p.Request, []binder.Reason{x}, isFinal)
	}
	if len(p.Refused) > 0 {
		return p.Request, p.Binding, nil
	}
	for i := range p.Binding.Nodes {
		if c := p.Binding.Nodes[i].Component; asks(c) && !slices.Contains(asked, c.Provider) {
			asked = append(asked, c.Provider)
		}
	}
	slices.Sort(asked)
	return p.Request, p.Binding, asked
}

// unknownFeatures warns of constraints that nothing satisfies, since nothing of the site has their
// feature.
func unknownFeatures(req *rspec.Request, inv *inventory.Inventory) (all []binder.Reason) {
	known := inv.Features()
	for i := range req.Nodes {
		n := &req.Nodes[i]
		constraints := slices.Clone(n.Require)
		for _, p := range n.Prefer {
			constraints = append(constraints, p.Constraints...)
		}
		for _, c := range constraints {
			if slices.Contains(known, c.Feature) {
				continue
			}
			remedy := "so nothing satisfies it"
			if near := display.Suggest(c.Feature, known); near != "" {
				remedy = fmt.Sprintf("did you mean %s?", near)
			}
			all = append(all, binder.Reason{Kind: "node", ClientID: n.ClientID, What: c.String(), Text: fmt.Sprintf("nothing here has the feature %q of a constraint; %s", c.Feature, remedy)})
		}
	}
	return all
}

// exclusiveWarnings warns of each shared component that an exclusive node would take as a whole.
func exclusiveWarnings(b binder.Binding) (all []binder.Reason) {
	seen := map[*inventory.Component]bool{}
	for _, n := range b.Nodes {
		if !n.Exclusive || n.Component.Exclusive || seen[n.Component] {
			continue
		}
		seen[n.Component] = true
		places := am.Fits(n.Component.Capacity, am.Amount{}, n.SliverType.Needs, math.MaxInt32)
		has := ""
		if places < math.MaxInt32 {
			has = " (" + display.Count(int(places), "place") + ")"
		}
		all = append(all, binder.Reason{Kind: "node", ClientID: n.Node.ClientID, What: "exclusive",
			Text: fmt.Sprintf(` has exclusive="true" and would take the whole of %s%s; remove it to share the host with other slices`, n.Component.Name, has)})
	}
	return all
}

// report prints the findings in the order of the file, and then their number. It prints a warning
// that occurs at several places only once, at the first place.
func (k *Checker) report(r *diagnosis) {
	k.printFindings(r)
	if len(r.list) > 0 {
		fmt.Fprintf(k.Out, "%s: %s, %s\n", display.Printable(r.name), display.Count(r.errors, "error"), display.Count(r.warnings, "warning"))
	}
	k.wrong += r.errors
	k.counted = k.wrong == r.errors
}

func (k *Checker) printFindings(r *diagnosis) {
	slices.SortStableFunc(r.list, func(a, b diagnostic) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	again := map[string][]string{} // the places of each warning
	for _, d := range r.list {
		if !d.isError {
			again[d.text] = append(again[d.text], d.place())
		}
	}
	lines := newExcerpts(r.text)
	for _, d := range r.list {
		text := d.text
		if !d.isError {
			places := again[text]
			if places == nil {
				continue
			}
			again[text] = nil
			text += alsoAt(places[1:])
		}
		where := r.name
		if d.line > 0 {
			where += ":" + d.place()
		}
		severity := "warning"
		if d.isError {
			severity = "error"
		}
		fmt.Fprintf(k.Out, "%s: %s: %s\n%s", display.Printable(where), severity, display.Printable(text), lines.at(d.line, d.column))
	}
}

// alsoAt lists at most five places.
func alsoAt(places []string) string {
	const most = 5
	switch more := len(places) - most; {
	case len(places) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("; also at %s and %s", strings.Join(places[:most], ", "), display.Count(more, "other place"))
	}
	return "; also at " + strings.Join(places, ", ")
}
