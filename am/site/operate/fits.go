package operate

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/rspec"
)

// Fits says on which components the nodes of a request fit now.
type Fits struct {
	Nodes []NodeFit `json:"nodes"`
	// Foreign counts the nodes of other aggregates.
	Foreign int `json:"foreign,omitempty"`
	// Reason says why the request does not fit as a whole; empty if it fits.
	Reason string `json:"reason,omitempty"`
}

// NodeFit says on which components one node fits if it is alone, and why not on others.
type NodeFit struct {
	ClientID string `json:"client_id"`
	// Refused is the reason if no component can be right, for example an unknown component_id.
	Refused    string `json:"refused,omitempty"`
	SliverType string `json:"sliver_type,omitempty"`
	// Fits has the components, in the order in which the site prefers them.
	Fits []ComponentFit `json:"fits"`
	// Candidates counts the components that offer the sliver type and have the hardware type.
	Candidates int       `json:"candidates"`
	Removals   []Removal `json:"removals,omitempty"`
	// Obstacles counts the candidates that satisfy the constraints and do not fit, by reason.
	Obstacles map[string]int `json:"obstacles,omitempty"`
}

// ComponentFit has components that grant the same.
type ComponentFit struct {
	Components []string  `json:"components"`
	Granted    []Granted `json:"granted,omitempty"`
	// Score is the sum of the weights of the satisfied preferences.
	Score int `json:"score,omitempty"`
}

// Granted is the value of a feature that a node would get.
type Granted struct {
	Feature string `json:"feature"`
	Value   string `json:"value"`
}

// Removal has the number of candidates that a constraint removes.
type Removal struct {
	Constraint string `json:"constraint"`
	Removed    int    `json:"removed"`
}

// Fits reads a request, and says on which components its nodes fit now, for any slice. It fails with
// a *RefusedError if the text is no request, or has no node for this site, and with the errors of
// the store.
func (d *Operations) Fits(text []byte) (*Fits, error) {
	inv := d.cfg.Inventory()
	req, err := rspec.ParseRequest(text, d.cfg.Reading(inv))
	switch {
	case err != nil:
		return nil, refuse("%v", err)
	case len(req.Nodes) == 0:
		return nil, refuse("%s", req.NoNodesReason(inv.Manager))
	}
	f := &Fits{Foreign: req.Foreign}
	r := &binder.Request{Request: req}
	err = d.cfg.Store.Read(func(v *store.View) error {
		view := &binder.View{Inventory: inv, Plan: d.cfg.Plan(), Calendar: v.Calendar, Now: v.Now()}
		list, err := binder.Fits(r, v.Now(), time.Time{}, view)
		if err != nil {
			return err
		}
		for i := range list {
			f.Nodes = append(f.Nodes, nodeFit(&list[i]))
		}
		_, err = binder.Bind(r, v.Now(), time.Time{}, view)
		if unsatisfied, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
			f.Reason, err = unsatisfied.Error(), nil
		}
		return err
	})
	return f, err
}

func nodeFit(x *binder.NodeFit) NodeFit {
	n := NodeFit{ClientID: x.Node.ClientID, Refused: x.Refused, Fits: []ComponentFit{}, Candidates: x.Candidates}
	if x.SliverType != nil {
		n.SliverType = x.SliverType.Name
	}
	for _, r := range x.Removals {
		n.Removals = append(n.Removals, Removal{r.Constraint.String(), r.Removed})
	}
	if len(x.Obstacles) > 0 {
		n.Obstacles = map[string]int{}
	}
	for _, o := range x.Obstacles {
		n.Obstacles[o.Text] = o.Number
	}
	for _, c := range x.Fits {
		var granted []Granted
		for _, g := range c.Grant.Values {
			granted = append(granted, Granted{g.Feature, g.Value})
		}
		last := len(n.Fits) - 1
		if last < 0 || n.Fits[last].Score != c.Grant.Score || !slices.Equal(n.Fits[last].Granted, granted) {
			n.Fits, last = append(n.Fits, ComponentFit{Granted: granted, Score: c.Grant.Score}), last+1
		}
		n.Fits[last].Components = append(n.Fits[last].Components, c.Component.Name)
	}
	return n
}

// fitsLine returns the result of Fits as one line of JSON, in ASCII.
func (d *Operations) fitsLine(text []byte) ([]byte, error) {
	f, err := d.Fits(text)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	err = lineEncoder[*Fits](&line)(f)
	return line.Bytes(), err
}
