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

// maxInput is the maximal number of bytes of an input with several updates.
const maxInput = 8 << 20

type setInput struct {
	Updates []setUpdate `json:"updates"`
	Ral     struct {
		Noop bool `json:"noop"`
	} `json:"ral"`
}

// setUpdate is one update in the input; Should has only the differences.
type setUpdate struct {
	Name   string   `json:"name"`
	Is     Resource `json:"is"`
	Should Resource `json:"should"`
}

// Requested are the attributes that an update for one of our own providers changes; those that stay
// are nil.
type Requested struct {
	Ensure        *string   `json:"ensure"`
	Power         *string   `json:"power"`
	RestartSerial *string   `json:"restart_serial"`
	Component     *string   `json:"component"`
	SliverType    *string   `json:"sliver_type"`
	Image         *string   `json:"image"`
	Hostname      *string   `json:"hostname"`
	Users         *[]string `json:"users"`
	ClientID      *string   `json:"client_id"`
	SliceURN      *string   `json:"slice_urn"`
	SliverURN     *string   `json:"sliver_urn"`
	Interfaces    *[]string `json:"interfaces"`
	Granted       *[]string `json:"granted"` // of a new node only
	Setup         *[]string `json:"setup"`   // of a new node, and with a new change_serial
	SetupStage    *string   `json:"setup_stage"`
	ChangeSerial  *string   `json:"change_serial"`
}

// Set requests the updates. With noop it is a dry run: the provider only reports the changes
// that it would make. Set sends the differences between Is and Should, and only attributes
// that the provider declares as writable. Without differences Set does not start the provider.
// Otherwise Set first waits until fewer than Parallel sets run. Dry runs never delay a set.
// The caller must not run two sets of one resource at the same time.
//
// The result has one Change for each update, in order, and then one for each other resource
// that the provider changed. Set sends more than MaxNames updates, or updates of more than 8
// MiB, in several runs.
//
// The error is an *Error: a run failed as a whole, or the provider was not started. The error
// wraps ErrNoPlace if ctx ended before a place became free. After a failed run the state of
// the run's resources is unknown until the next Get, and the result has only the changes of
// earlier runs.
func (p *Provider) Set(ctx context.Context, updates []Update, noop bool) ([]Change, error) {
	if err := p.checkOffered("set"); err != nil {
		return nil, err
	}
	changes := make([]Change, len(updates))
	index := make(map[string]int, len(updates))
	var todo []setUpdate
	for i, u := range updates {
		if _, twice := index[u.Name]; twice || u.Name == "" {
			err := fmt.Errorf("provider %s: set: an update has no name, or two updates have the same name: %q", p.Name, u.Name)
			return nil, &Error{Kind: Failed, Msg: err.Error(), Err: err}
		}
		index[u.Name] = i
		changes[i].Name = u.Name
		if should := p.writable(Diff(u.Is, u.Should)); len(should) > 0 {
			todo = append(todo, setUpdate{u.Name, u.Is, should})
		}
	}
	if len(todo) == 0 {
		return changes, nil
	}
	places := p.places
	if noop {
		places = p.dryRunPlace
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, p.noPlace(ctx.Err())
	}
	for some := range slices.Chunk(todo, MaxNames) {
		done, err := p.setSome(ctx, some, noop)
		for _, c := range done {
			if i, asked := index[c.Name]; asked {
				changes[i] = c
			} else {
				changes = append(changes, c)
			}
		}
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// writable removes undeclared and read-only attributes from r, and returns r.
func (p *Provider) writable(r Resource) Resource {
	maps.DeleteFunc(r, func(name string, _ Value) bool { return !p.Has(name) || p.Attributes[name].Kind == "r" })
	return r
}

// setSome makes one run for the updates, or several if the input would be too large. If a run fails, setSome returns
// the changes of earlier runs with the error.
func (p *Provider) setSome(ctx context.Context, updates []setUpdate, noop bool) ([]Change, error) {
	in := setInput{Updates: updates}
	in.Ral.Noop = noop
	text, err := marshalPlain(in)
	if err != nil {
		return nil, p.unusable("set", err)
	}
	if half := len(updates) / 2; half > 0 && len(text) > maxInput {
		changes, err := p.setSome(ctx, updates[:half], noop)
		if err == nil {
			var others []Change
			others, err = p.setSome(ctx, updates[half:], noop)
			changes = append(changes, others...)
		}
		return changes, err
	}
	begun := time.Now()
	out, err := p.run(ctx, call{action: "set", in: text, limit: p.set, answer: maxAnswer})
	var changes []Change
	if err != nil {
		err = p.unusable("set", err)
	} else {
		changes, err = p.readSet(out, updates)
	}
	p.reportEnd("set", begun, err)
	return changes, err
}

// readSet parses the answer to a set. If the answer has derive: true, updates without an entry count as done. The error
// is always an *Error.
func (p *Provider) readSet(text []byte, updates []setUpdate) ([]Change, error) {
	var changes []Change
	seen := map[string]bool{}
	saw, derive, err := p.read(text, "set", "changes", func(a *answer) error {
		c, err := a.change()
		if err != nil {
			return err
		}
		if seen[c.Name] {
			return fmt.Errorf("has the change of %q twice", clean(c.Name, 100))
		}
		seen[c.Name] = true
		changes = append(changes, c)
		return nil
	})
	if err == nil && !saw && !derive {
		err = p.unusable("set", errors.New("its answer has none of changes, derive and error"))
	}
	if err != nil {
		return nil, err
	}
	if derive {
		for _, u := range updates {
			if !seen[u.Name] {
				changes = append(changes, u.derived())
			}
		}
	}
	return changes, nil
}

// derived returns the change of an update that succeeded as requested. For a removed resource
// the change has only the attribute "ensure".
func (u setUpdate) derived() Change {
	c := Change{Name: u.Name, Is: Resource{}, Was: Resource{}}
	for name, v := range u.Should {
		if u.Should.Text(AttrEnsure) == Absent && name != AttrEnsure {
			continue
		}
		c.Is[name] = v
		if was, ok := u.Is[name]; ok {
			c.Was[name] = was
		}
	}
	return c
}

// change parses one entry of the answer to a set. c has only an error if the entry has an error or an invalid
// attribute; err makes the whole answer invalid.
func (a *answer) change() (c Change, err error) {
	c.Is, c.Was = Resource{}, Resource{}
	var incomplete string // an attribute without the key "is" or the key "was"
	err = a.members(func(key string) error {
		switch key {
		case AttrName:
			return a.name(&c.Name)
		case "error":
			return a.error(&c.Err)
		}
		raw := a.value()
		d, ok := a.p.Attributes[key]
		if !ok {
			return nil
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil || m["is"] == nil || m["was"] == nil {
			incomplete = key
			return nil
		}
		for side, into := range map[string]Resource{"is": c.Is, "was": c.Was} {
			v, bad := a.attribute(key, d.Type, m[side])
			if bad != nil && c.Err == nil {
				c.Err = bad
			}
			if v != nil {
				into[key] = v
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return c, err
	case c.Name == "":
		return c, errors.New("has a change without a name")
	case incomplete != "" && c.Err == nil:
		return c, fmt.Errorf("has a change of %q where %s lacks is or was", clean(c.Name, 100), incomplete)
	case c.Err != nil:
		c.Is, c.Was = nil, nil
	}
	return c, nil
}
