package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"patchbay/inventory/provider"
)

// set stores the users at the testbed, and sends all other attributes to the other
// provider. If that provider declares the attribute users, it gets the users, too.
func (b *behind) set(ctx context.Context, input json.RawMessage, out io.Writer) error {
	var q struct {
		Updates []entry         `json:"updates"`
		Ral     json.RawMessage `json:"ral"`
	}
	if err := json.Unmarshal(input, &q); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	var dry struct{ Noop bool }
	_ = json.Unmarshal(q.Ral, &dry)
	users := map[string]json.RawMessage{} // as requested
	previous := map[string]json.RawMessage{}
	request := EndpointsInput{Provider: b.name}
	theirs := []entry{}
	for _, u := range q.Updates {
		name := u.text(provider.AttrName)
		var should, is entry
		_ = json.Unmarshal(u["should"], &should)
		_ = json.Unmarshal(u["is"], &is)
		if isSet(should[provider.AttrUsers]) {
			users[name], previous[name] = should[provider.AttrUsers], is[provider.AttrUsers]
			request.Set = append(request.Set, EndpointRequest{Name: name, Users: should.strings(provider.AttrUsers)})
		}
		if !b.users {
			delete(should, provider.AttrUsers)
			delete(is, provider.AttrUsers)
			u.set("should", should)
			u.set("is", is)
		}
		if len(should) > 0 {
			theirs = append(theirs, u)
		}
	}
	refused := map[string]string{}
	if len(request.Set) > 0 && !dry.Noop {
		endpoints, err := b.callEndpoints(ctx, request)
		if err != nil {
			return provider.WriteAnswer(out, provider.Failure(err))
		}
		for _, d := range endpoints {
			refused[d.Name] = d.Error
		}
	}
	answer, err := b.passOn(ctx, object{"updates": theirs, "ral": q.Ral}, len(theirs))
	if err != nil || isSet(answer.Error) || b.users {
		if err == nil {
			err = provider.WriteAnswer(out, answer.object())
		}
		return err
	}
	b.addUsers(&answer, users, previous, refused)
	return provider.WriteAnswer(out, answer.object())
}

type setAnswer struct {
	Error   json.RawMessage `json:"error,omitempty"`
	Derive  bool            `json:"derive,omitempty"`
	Changes []entry         `json:"changes"`
}

func (a *setAnswer) object() object {
	if isSet(a.Error) {
		return object{"error": a.Error}
	}
	if a.Changes == nil {
		a.Changes = []entry{}
	}
	return object{"changes": a.Changes, "derive": a.Derive}
}

// passOn sends the action set with the input q to the other provider. It sends nothing if n, the number of
// updates, is 0.
func (b *behind) passOn(ctx context.Context, q object, n int) (a setAnswer, err error) {
	if n == 0 {
		return a, nil
	}
	input, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	text, err := b.call(ctx, ActionSet, input)
	if err == nil {
		if err = json.Unmarshal(text, &a); err != nil {
			err = fmt.Errorf("the answer of %s: %w", filepath.Base(b.other), err)
		}
	}
	return a, err
}

// addUsers adds changes of the attribute users to the answer of a provider that does not
// declare it. The keys of the maps are names of nodes. users contains the requested
// users, and previous the earlier ones. refused contains the reasons why the testbed
// could not set endpoints.
func (b *behind) addUsers(a *setAnswer, users, previous map[string]json.RawMessage, refused map[string]string) {
	byName := map[string]entry{}
	for _, c := range a.Changes {
		byName[c.text(provider.AttrName)] = c
	}
	for name, is := range users {
		c := byName[name]
		if c == nil && a.Derive && refused[name] == "" {
			continue // the caller derives the changes of a node without an entry
		}
		if c == nil {
			c = entry{}
			c.set(provider.AttrName, name)
			a.Changes = append(a.Changes, c)
		}
		switch {
		case isSet(c["error"]):
		case refused[name] != "":
			c.set("error", object{"message": refused[name], "kind": provider.Failed})
		default:
			before := previous[name]
			if before == nil {
				before = json.RawMessage("null")
			}
			c.set(provider.AttrUsers, object{"is": is, "was": before})
		}
	}
}
