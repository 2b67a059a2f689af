package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Get returns the state of the named resources, or of all resources if names is nil. For
// an empty list it does not start the provider. The result has an entry for each requested
// name, and for each other resource that the provider reported.
//
// If the answer does not mention a requested name, the entry of that name has LeftOut set. If
// the provider declares the attribute "ensure", the resource then counts as absent. Otherwise
// the entry is an error of kind Unknown.
//
// If names has more than MaxNames names, Get makes several runs. The error is an *Error: the
// provider does not offer get, or a run failed as a whole. The map then holds the results of
// earlier runs.
func (p *Provider) Get(ctx context.Context, names []string) (map[string]Result, error) {
	found := map[string]Result{}
	if err := p.checkOffered("get"); err != nil {
		return found, err
	}
	if names == nil {
		return found, p.getSome(ctx, []string{}, found)
	}
	for some := range slices.Chunk(names, MaxNames) {
		if err := p.getSome(ctx, some, found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// getSome makes one run, for all resources if names is empty. It adds the results to found.
func (p *Provider) getSome(ctx context.Context, names []string, found map[string]Result) (err error) {
	begun := time.Now()
	defer func() { p.reportEnd("get", begun, err) }()
	in, err := json.Marshal(struct {
		Names []string `json:"names"`
	}{names})
	if err != nil {
		return p.unusable("get", err)
	}
	out, err := p.run(ctx, call{action: "get", in: in, limit: p.get, answer: maxAnswer})
	if err != nil {
		return p.unusable("get", err)
	}
	parsed, err := p.readGet(out)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := parsed[name]; ok {
			continue
		}
		if p.Has(AttrEnsure) {
			parsed[name] = Result{Resource: Resource{AttrName: name, AttrEnsure: Absent}, LeftOut: true}
		} else {
			parsed[name] = Result{Err: reported(string(Unknown), fmt.Sprintf("provider %s knows no %s %s", p.Name, p.Type, name)), LeftOut: true}
		}
	}
	maps.Copy(found, parsed)
	return nil
}

// readGet parses the answer to a get, and returns the results by name. Its error is always an *Error.
func (p *Provider) readGet(text []byte) (map[string]Result, error) {
	parsed := map[string]Result{}
	saw, _, err := p.read(text, "get", "resources", func(a *answer) error {
		name, r, err := a.resource()
		if err != nil {
			return err
		}
		if _, twice := parsed[name]; twice {
			return fmt.Errorf("has the resource %q twice", clean(name, 100))
		}
		parsed[name] = r
		return nil
	})
	if err == nil && !saw {
		err = p.unusable("get", errors.New("its answer has neither resources nor error"))
	}
	if err != nil {
		return nil, err
	}
	return parsed, nil
}

// resource parses one entry of the answer to a get. It ignores undeclared and write-only attributes. res is an error if
// the entry has an error or an invalid attribute; err makes the whole answer invalid.
func (a *answer) resource() (name string, res Result, err error) {
	r := Resource{}
	err = a.members(func(key string) error {
		switch key {
		case AttrName:
			err := a.name(&name)
			r[AttrName] = name
			return err
		case "error":
			return a.error(&res.Err)
		}
		raw := a.value()
		d, ok := a.p.Attributes[key]
		if !ok || d.Kind == "w" {
			return nil
		}
		v, bad := a.attribute(key, d.Type, raw)
		if bad != nil && res.Err == nil {
			res.Err = bad
		}
		if v != nil {
			r[key] = v
		}
		return nil
	})
	if err == nil && name == "" {
		err = errors.New("has a resource without a name")
	}
	if res.Err == nil {
		res.Resource = r
	}
	return name, res, err
}
