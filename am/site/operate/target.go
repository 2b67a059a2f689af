package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

const (
	maxTargets  = 1000
	maxText     = 500 // bytes
	maxOperator = 100 // bytes
)

// CheckOperator fails with a *RefusedError if an operator's name or the text of an order is too
// long or has control characters, or if there is no name.
func CheckOperator(operator, text string) error {
	switch {
	case operator == "":
		return refuse("the order has no operator's name")
	case len(operator) > maxOperator || strings.ContainsFunc(operator, unicode.IsControl):
		return refuse("the name of the operator is longer than %d bytes, or has control characters", maxOperator)
	case len(text) > maxText:
		return refuse("the text has %d bytes; write at most %d", len(text), maxText)
	case strings.ContainsFunc(text, unicode.IsControl):
		return refuse("the text must be one line without control characters")
	}
	return nil
}

func journalText(action, reason string) string {
	if action == "" || reason == "" {
		return action + reason
	}
	return action + ": " + reason
}

// named is one slice that an order names, or slivers of that slice.
type named struct {
	slice   urn.URN
	slivers []urn.URN // nil for the whole slice
}

// target is one slice of an order, read from the store. The function that act calls sets event,
// text and preview, for act.
type target struct {
	slice   urn.URN
	record  am.Slice
	slivers []am.Sliver
	isWhole bool // the order names the slice, not slivers
	event   am.Event
	text    string
	preview bool // the order changes nothing
	// displaced are reservations of any slice that the order releases.
	displaced []am.Sliver
}

// act applies f to each slice that targets name, in one decision with one journal entry for each
// slice. A preview commits nothing and returns errPreview. If skipRemoved is true, act skips
// slices whose slivers are all being removed, unless this holds for all slices. After an error, the
// Result is incomplete.
func (d *Operations) act(ctx context.Context, targets []string, operator, text string, skipRemoved bool, f func(*store.View, *store.ChangeSet, *target, *Result) error) (done Result, err error) {
	if err := CheckOperator(operator, text); err != nil {
		return done, err
	}
	all, err := d.find(targets)
	if err != nil {
		return done, err
	}
	err = d.commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		done = Result{At: v.Now().UTC()}
		preview, skipped := false, 0
		var displaced []am.Sliver
		for _, n := range all {
			t, err := n.resolve(v)
			if e, ok := errors.AsType[*RefusedError](err); ok && e.beingRemoved && skipRemoved {
				if skipped++; skipped < len(all) { // else return err, because nothing is left to do
					continue
				}
			}
			if err == nil {
				err = f(v, &cs, &t, &done)
			}
			if err != nil {
				return store.ChangeSet{}, err
			}
			e := am.JournalEntry{At: v.Now().UTC(), Event: string(t.event), Operator: operator, Slice: t.slice, Text: journalText(t.text, text)}
			for _, x := range t.slivers {
				e.Slivers = append(e.Slivers, x.URN)
			}
			cs.Log(e)
			preview = t.preview
			for _, x := range t.displaced {
				if !slices.ContainsFunc(displaced, func(y am.Sliver) bool { return y.URN.Equal(x.URN) }) {
					displaced = append(displaced, x)
				}
			}
		}
		if preview {
			return store.ChangeSet{}, errPreview
		}
		return cs, releaseDisplaced(v, &cs, displaced, operator, text)
	})
	return done, err
}

// releaseDisplaced releases reservations for an order about other slivers. The text for their users names no other slice.
func releaseDisplaced(v *store.View, cs *store.ChangeSet, all []am.Sliver, operator, text string) error {
	for i := range all {
		cs.Log(am.JournalEntry{At: v.Now().UTC(), Event: string(am.EventDelete), Operator: operator, Slice: all[i].Slice, Slivers: []urn.URN{all[i].URN}, Text: journalText("released by an operator to make room", text)})
	}
	return lease.Release(v, cs, all, am.EventDelete, "")
}

var errPreview = errors.New("preview")

// find returns what the targets name, each slice once.
func (d *Operations) find(targets []string) (all []named, err error) {
	switch {
	case len(targets) == 0:
		return nil, refuse("the order names nothing; name a slice, or slivers")
	case len(targets) > maxTargets:
		return nil, refuse("the order names %d targets; name at most %d at once", len(targets), maxTargets)
	}
	err = d.cfg.Store.Read(func(v *store.View) error {
		for _, arg := range targets {
			n, err := findTarget(v, arg)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(o named) bool { return o.slice.Equal(n.slice) })
			switch {
			case i < 0:
				all = append(all, n)
			case n.slivers == nil || all[i].slivers == nil:
				all[i].slivers = nil
			default:
				for _, u := range n.slivers {
					if !slices.ContainsFunc(all[i].slivers, u.Equal) {
						all[i].slivers = append(all[i].slivers, u)
					}
				}
			}
		}
		return nil
	})
	return all, err
}

// findOneSlice fails if several slices match arg.
func findOneSlice(v *store.View, arg string) (urn.URN, error) {
	found, err := findSlice(v, arg)
	switch {
	case err != nil:
		return urn.URN{}, err
	case len(found) > 1:
		return urn.URN{}, ambiguous(arg, found)
	}
	return found[0], nil
}

// findTarget finds what arg names: the URN of a slice or a sliver, the NAME of a slice, or
// NAME/CLIENT_ID, which may name several slivers.
func findTarget(v *store.View, arg string) (named, error) {
	if u, err := urn.Parse(arg); err == nil && u.Type == urn.Sliver {
		x, _, err := v.Sliver(u)
		if errors.Is(err, store.ErrNotFound) {
			err = refuse("there is no sliver %s here", u)
		}
		return named{x.Slice, []urn.URN{x.URN}}, err
	} else if err == nil && u.Type != urn.Slice {
		return named{}, refuse("%s is a %s; name a slice, or slivers", u, u.Type)
	}
	slice, clientID, isSliver := arg, "", false
	if !strings.HasPrefix(strings.ToLower(arg), "urn:") {
		slice, clientID, isSliver = strings.Cut(arg, "/")
	}
	if strings.ContainsAny(slice, "*?") {
		return named{}, refuse("%s is a pattern; an order must name each slice, so list them first: patchbay slices '%s'", slice, slice)
	}
	u, err := findOneSlice(v, slice)
	n := named{slice: u}
	if err != nil || !isSliver {
		return n, err
	}
	all, err := v.SliversOf(n.slice)
	var names []string
	for i := range all {
		x := &all[i]
		if names = append(names, x.ClientID); x.ClientID == clientID && x.Status.Allocation != am.Unallocated {
			n.slivers = append(n.slivers, x.URN)
		}
	}
	if err == nil && n.slivers == nil {
		err = refuse("slice %s has no sliver %q%s", n.slice, clientID, didYouMean(clientID, names))
	}
	return n, err
}

// resolve reads the slice and its slivers. It refuses slivers that are being removed; for a whole
// slice, it leaves them out unless no others exist.
func (n *named) resolve(v *store.View) (t target, err error) {
	t.slice, t.isWhole = n.slice, n.slivers == nil
	t.record, _, err = v.Slice(n.slice)
	if errors.Is(err, store.ErrNotFound) {
		return t, refuse("there is no slice %s here", n.slice)
	}
	if err != nil {
		return t, err
	}
	if n.slivers == nil {
		all, err := v.SliversOf(n.slice)
		for _, x := range all {
			if x.Status.Allocation != am.Unallocated {
				t.slivers = append(t.slivers, x)
			}
		}
		switch {
		case err == nil && len(t.slivers) == 0 && len(all) > 0:
			err = &RefusedError{Text: fmt.Sprintf("all slivers (%d) of slice %s are being removed already", len(all), n.slice), beingRemoved: true}
		case err == nil && len(t.slivers) == 0:
			err = refuse("slice %s has no slivers", n.slice)
		}
		return t, err
	}
	for _, u := range n.slivers {
		x, _, failed := v.Sliver(u)
		switch {
		case errors.Is(failed, store.ErrNotFound):
			err = cmp.Or(err, refuse("there is no sliver %s here", u))
		case failed == nil && x.Status.Allocation == am.Unallocated:
			err = cmp.Or(err, refuse("%s is being removed already", describe(&x)))
		}
		err = cmp.Or(err, failed)
		t.slivers = append(t.slivers, x)
	}
	return t, err
}

func describe(x *am.Sliver) string {
	return "sliver " + x.URN.String() + " (" + x.Slice.Name + "/" + x.ClientID + ")"
}
