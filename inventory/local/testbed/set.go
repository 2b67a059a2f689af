package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// errorAnswer is an error in an answer or in one of its entries.
func errorAnswer(err error) object {
	kind := provider.Failed
	if refusal, ok := errors.AsType[*refusalError](err); ok {
		kind = refusal.kind
	}
	return object{"error": object{"message": err.Error(), "kind": kind}}
}

// set writes down what is asked, wakes the nodes that it concerns, and answers.
func (t *Testbed) set(input json.RawMessage) (object, error) {
	var q struct {
		Updates []update `json:"updates"`
		Ral     struct {
			Noop bool `json:"noop"`
		} `json:"ral"`
	}
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("the input of set cannot be read: %w", err)
	}
	if len(q.Updates) > maxNames {
		return nil, fmt.Errorf("the input of set has %d updates, at most %d can be", len(q.Updates), maxNames)
	}
	names, err := t.images.Names()
	if err != nil {
		return nil, err
	}
	wrong := t.checkLinks(q.Updates)
	t.checkRoom(q.Updates, wrong)
	answers := make([]object, len(q.Updates))
	places := make(chan struct{}, writers)
	seen := map[string]bool{}
	var all sync.WaitGroup
	for i, u := range q.Updates {
		if seen[u.Name] {
			continue // the first counts
		}
		seen[u.Name] = true
		places <- struct{}{}
		all.Go(func() {
			var c object
			err := wrong[u.Name]
			if err == nil {
				c, err = t.accept(u, names, q.Ral.Noop)
			}
			if _, ours := errors.AsType[*refusalError](err); err != nil && !ours {
				t.log.Error("cannot write down what is asked of a node", "node", u.Name, "error", err)
				err = refused(provider.Failed, "the testbed cannot note what is asked of the node; its operators can see why in the log")
			}
			if err != nil {
				c = errorAnswer(err)
			}
			if c != nil {
				c["name"] = u.Name
			}
			answers[i] = c
			<-places
		})
	}
	all.Wait()
	changes := slices.DeleteFunc(answers, func(o object) bool { return o == nil })
	return object{"changes": changes}, nil
}

// accept answers one update; nil when there is nothing to do.
func (t *Testbed) accept(u update, imageNames []string, noop bool) (object, error) {
	w := u.Should
	if w.Ensure != nil && *w.Ensure != provider.Present && *w.Ensure != provider.Absent {
		return nil, refused(provider.Failed, "ensure is %.40q and can be present or absent", *w.Ensure)
	}
	absent := w.Ensure != nil && *w.Ensure == provider.Absent
	l := t.life(u.Name)
	switch {
	case l == nil && absent:
		return nil, nil
	case l == nil && w.Ensure == nil:
		return nil, refused(provider.Unknown, "there is no node %.80s", u.Name)
	case l == nil:
		return t.acceptNew(u, imageNames, noop)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		if absent {
			return nil, nil
		}
		return nil, refused(provider.Failed, "node %s was just removed; ask again", u.Name)
	}
	next := l.rec.Asked
	switch {
	case next.Removing && absent:
		return nil, nil
	case absent:
		next.Removing = true
	case next.Removing:
		return nil, refused(provider.Failed, "node %s is still being removed; ask again when it is gone", u.Name)
	case l.broken != "":
		return nil, refused(provider.Failed, "node %s is broken: %s", u.Name, l.broken)
	default:
		err := w.change(&next)
		if err == nil {
			err = l.sameSteps(w.Setup)
		}
		if err != nil {
			return nil, err
		}
	}
	change := changed(&l.rec.Asked, &next)
	if change == nil || noop {
		return change, nil
	}
	rec := l.rec
	rec.Asked, rec.Change = next, rec.Change+1
	err := l.save(rec)
	if err != nil && absent {
		err = l.disown(rec, err)
	}
	if err != nil {
		return nil, err
	}
	l.setState(provider.StateChanging, "waiting for its turn")
	l.poke()
	if s := l.slice; s != nil {
		s.announce()
	}
	return change, nil
}

// acceptNew is accept for a node that is not there.
func (t *Testbed) acceptNew(u update, imageNames []string, noop bool) (object, error) {
	if !isID(u.Name) {
		return nil, refused(provider.Failed, "%.80q cannot be the name of a node; it must be a UUID", u.Name)
	}
	next := asked{Power: provider.On}
	if err := u.Should.assign(&next); err != nil {
		return nil, err
	}
	kind, err := t.check(&next, imageNames)
	if err != nil {
		return nil, err
	}
	steps, err := parseSteps(u.Should.Setup)
	if err != nil {
		return nil, err
	}
	change := changed(nil, &next)
	if noop {
		if t.lacksDisk() {
			return nil, errNoDisk
		}
		return change, nil
	}
	limits := node.Limits{CPUs: kind.CPUs, Memory: kind.Memory, PIDs: kind.PIDs, Disk: kind.Disk}
	rec := record{Asked: next, Change: 1, Limits: limits, Restarted: next.RestartSerial, Steps: len(steps)}
	if err := t.begin(u.Name, rec, steps); err != nil {
		return nil, err
	}
	return change, nil
}
