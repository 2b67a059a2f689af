package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Known has the names that a template may refer to.
type Known struct {
	Inventory *inventory.Inventory
	// Earlier are the templates of the slice that were compiled before, in their order.
	Earlier []rspec.Template
	// Nodes and Links are the client_ids of the slice's nodes and links.
	Nodes, Links []string
	// Work bounds the compilations of one call together.
	Work *rspec.Work
}

const (
	// maxSources limits the sources of a slice's templates together, in bytes. Each compilation
	// reads all of them.
	maxSources = 1 << 20
	// maxExpansions limits how often the templates of a call are compiled because another call
	// has changed the slice.
	maxExpansions = 4
)

var errChanged = errors.New("the slice has changed since the templates were compiled")

// expand compiles the templates of the request, and replaces the request by one that contains the
// results. The decision about it fails with errChanged if the slice changes in between, because
// the results depend on the slice's nodes and templates.
//
// Errors: those of check and Memory.Parse; Unsupported if the site compiles none;
// TooBig for too many sources; and a *rspec.RequestError for mistakes in sources.
func (a *attempt) expand(ctx context.Context) error {
	if len(a.request.Templates) == 0 {
		return nil
	}
	if a.options.Change && !a.options.Preview {
		return am.Errorf(am.Unsupported, "line %d: a change of the slice (patchbay_change) cannot have templates; compile the source first: patchbay compile", a.request.Templates[0].Line)
	}
	if a.cfg.Compile == nil {
		return am.Errorf(am.Unsupported, "line %d: this aggregate compiles no templates; compile the source yourself, such as by: patchbay compile", a.request.Templates[0].Line)
	}
	caller := a.grant.Caller()
	known, err := a.knownNames(ctx)
	if err != nil {
		return err
	}
	known.Work = rspec.NewWork(ctx)
	size := 0
	for _, t := range slices.Concat(known.Earlier, a.request.Templates) {
		size += len(t.Text)
	}
	if size > maxSources {
		return am.Errorf(am.TooBig, "the templates of one slice may have %d bytes together, and with the new request they would have %d; use several slices, or compile the source yourself", maxSources, size).About(a.slice)
	}
	if err := a.hold(a.memory.Hold(caller.Key(), size, size/sourceElement)); err != nil {
		return err
	}
	var results []rspec.Expansion
	if err := a.memory.inTurn(ctx, caller.Key(), true, func() (err error) {
		results, err = a.compile(known)
		return err
	}); err != nil {
		return err
	}
	text, err := a.request.Expand(results)
	if err != nil {
		return err
	}
	if err := a.hold(a.memory.HoldText(caller.Key(), string(text))); err != nil {
		return err
	}
	expanded, err := a.memory.Parse(ctx, caller.Key(), text, a.request.Options())
	if err != nil {
		return relabel(err, func(rspec.Problem) string { return "the compiled templates" })
	}
	expanded.RemovePlaces()
	a.request = expanded
	return nil
}

// knownNames returns the names of the request and, unless the site counts as empty or the request is
// the new whole of the slice, its slice.
func (a *attempt) knownNames(ctx context.Context) (Known, error) {
	if a.emptySite {
		return a.requestNames(), nil
	}
	if a.options.Change {
		return a.requestNames(), a.cfg.Store.Read(func(v *store.View) error { return a.check(v, true) })
	}
	known, documents, err := a.readKnown()
	if err != nil {
		return known, err
	}
	requests, err := a.parseDocuments(ctx, a.grant.Caller(), documents)
	if err != nil {
		return known, err
	}
	for _, d := range documents {
		known.Earlier = append(known.Earlier, requests[d.ID].Expanded...)
	}
	return known, nil
}

// requestNames returns the names of the request alone.
func (a *attempt) requestNames() Known {
	known := Known{Inventory: a.Inventory()}
	for _, n := range a.request.Nodes {
		known.Nodes = append(known.Nodes, n.ClientID)
	}
	return known
}

// readKnown returns the names of the request and its slice, and the documents of the slice that have templates, the
// oldest first. It checks the call, sets a.basis, and reserves the memory of the documents.
func (a *attempt) readKnown() (known Known, documents []am.Document, err error) {
	known = a.requestNames()
	err = a.cfg.Store.Read(func(v *store.View) error {
		if err := a.check(v, true); err != nil {
			return err
		}
		basis := v.Rev(store.SliceKey(a.slice))
		a.basis = &basis
		rec, _, err := v.Slice(a.slice)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		live, err := a.remaining(v)
		if err != nil {
			return err
		}
		heads, bytes, elements := []am.Document{}, 0, 0
		add := func(id string) error {
			head, err := v.DocumentHead(id)
			if err == nil && head.Sources > 0 {
				heads, bytes, elements = append(heads, head), bytes+head.Bytes, elements+head.Elements
			}
			return err
		}
		for _, id := range rec.Definitions {
			if err := add(id); err != nil {
				return err
			}
		}
		links := map[string]bool{}
		for _, x := range live {
			known.Nodes = append(known.Nodes, x.ClientID)
			for _, in := range x.Interfaces {
				if in.Link != "" && !links[in.Link] {
					links[in.Link] = true
					known.Links = append(known.Links, in.Link)
				}
			}
		}
		for id := range documentIDs(reportsOf(live)) {
			if err := add(id); err != nil {
				return err
			}
		}
		if err := a.hold(a.memory.Hold(a.grant.Caller().Key(), bytes, elements)); err != nil {
			return err
		}
		slices.SortStableFunc(heads, func(x, y am.Document) int { return x.Received.Compare(y.Received) })
		for _, head := range heads {
			d, _, err := v.Document(head.ID)
			if err != nil {
				return err
			}
			documents = append(documents, d)
		}
		return nil
	})
	return known, documents, err
}

// compile compiles the templates of the request in their order; each may refer to those before it. It adds their
// warnings to the notices.
func (a *attempt) compile(known Known) (results []rspec.Expansion, err error) {
	all, templateOf, size := a.request.Templates, map[string]int{}, 0 // templateOf has the number of the template of each link
	limit, _ := a.request.Options().Limits.PerSlice()
	for i, t := range all {
		label := func(p rspec.Problem) string {
			number := ""
			if len(all) > 1 {
				number = fmt.Sprintf(" %d", i+1)
			}
			if p.Line == 0 {
				return "template" + number
			}
			return fmt.Sprintf("template%s line %d:%d", number, p.Line, p.Column)
		}
		x, err := a.cfg.Compile(t, known)
		if err != nil {
			return nil, relabel(err, label)
		}
		for _, p := range x.Remarks {
			a.notices = append(a.notices, label(p)+": "+p.Text())
		}
		if size += len(x.Request); size > limit {
			return nil, am.Errorf(am.TooBig, "%s: its nodes take more than the %d bytes of a request; deploy fewer nodes, or divide them among several slices", label(rspec.Problem{}), limit)
		}
		results = append(results, x)
		for _, link := range x.Links {
			if number, ok := templateOf[link]; ok {
				return nil, am.Errorf(am.BadArgs, "template %d: its link %.80q is also one of template %d; deploy all nodes of a network in one template, or send template %d in a later request", i+1, link, number, i+1)
			}
			templateOf[link] = i + 1
		}
		known.Earlier, known.Nodes = append(known.Earlier, t), append(known.Nodes, x.Nodes...)
	}
	return results, nil
}

// relabel replaces the lines of a *rspec.RequestError by labels. It returns other errors unchanged.
func relabel(err error, label func(rspec.Problem) string) error {
	e, ok := errors.AsType[*rspec.RequestError](err)
	if !ok {
		return err
	}
	relabeled := func(p rspec.Problem) rspec.Problem {
		p.Msg, p.Line, p.Column = label(p)+": "+p.Msg, 0, 0
		return p
	}
	x := rspec.RequestError{Problem: relabeled(e.Problem), More: e.More}
	for _, p := range e.Problems {
		x.Problems = append(x.Problems, relabeled(p))
	}
	return &x
}
