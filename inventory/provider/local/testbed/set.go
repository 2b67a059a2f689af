package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/node"
	"patchbay/rspec/match"
)

// set carries out the updates of a request, and answers with the changes of each node, or with the error
// of a refused one. The first update of a name counts. If noop is true, it saves nothing.
func (t *Testbed) set(input json.RawMessage) (object, error) {
	var q provider.Call[requestedChanges]
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("cannot decode the input of set: %w", err)
	}
	if len(q.Updates) > maxNames {
		return nil, fmt.Errorf("the input of set has %d updates, at most %d are allowed", len(q.Updates), maxNames)
	}
	names, err := t.images.Names()
	if err != nil {
		return nil, err
	}
	refusals := t.checkLinks(q.Updates)
	t.checkCapacity(q.Updates, refusals)
	answers := make([]object, len(q.Updates))
	slots := make(chan struct{}, maxRecordWrites)
	seen := map[string]bool{}
	var all sync.WaitGroup
	for i, u := range q.Updates {
		if seen[u.Name] {
			continue
		}
		seen[u.Name] = true
		slots <- struct{}{}
		all.Go(func() {
			var c object
			err := refusals[u.Name]
			if err == nil {
				c, err = t.applyUpdate(u, names, q.Ral.Noop)
			}
			if _, ours := errors.AsType[*provider.Error](err); err != nil && !ours {
				t.log.Error("cannot save the desired state of a node", "node", u.Name, "error", err)
				err = provider.Refuse(provider.Failed, "the testbed cannot save the request for the node; its operators can see why in the log")
			}
			if err != nil {
				c = provider.Failure(err)
			}
			if c != nil {
				c["name"] = u.Name
			}
			answers[i] = c
			<-slots
		})
	}
	all.Wait()
	changes := slices.DeleteFunc(answers, func(o object) bool { return o == nil })
	return object{"changes": changes}, nil
}

// applyUpdate creates or changes the node, or begins to remove it, as u requests. It returns the changes,
// or nil if there are none. If noop is true, it saves nothing.
func (t *Testbed) applyUpdate(u update, imageNames []string, noop bool) (object, error) {
	changes := u.Should
	if changes.Ensure != nil && *changes.Ensure != provider.Present && *changes.Ensure != provider.Absent {
		return nil, provider.Refuse(provider.Failed, "ensure is %.40q; it must be present or absent", *changes.Ensure)
	}
	absent := changes.Ensure != nil && *changes.Ensure == provider.Absent
	nc := t.node(u.Name)
	switch {
	case nc == nil && absent:
		return nil, nil
	case nc == nil && changes.Ensure == nil:
		return nil, provider.Refuse(provider.Unknown, "there is no node %.80s", u.Name)
	case nc == nil: // ensure is present
		return t.createNode(u, imageNames, noop)
	}
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.removed {
		if absent {
			return nil, nil
		}
		return nil, provider.Refuse(provider.Failed, "node %s was just removed; try again", u.Name)
	}
	next := nc.rec.Desired
	switch {
	case next.Removing && absent:
		return nil, nil
	case absent:
		next.Removing = true
		if stage := changes.SetupStage; stage != nil && *stage == noStage {
			next.SetupStage = noStage
		}
	case next.Removing:
		return nil, provider.Refuse(provider.Failed, "node %s is still being removed; try again after its removal", u.Name)
	case nc.broken != "":
		return nil, provider.Refuse(provider.Failed, "node %s is broken: %s", u.Name, nc.broken)
	default:
		isChange := changes.isChange(&next)
		err := changes.applyToExisting(&next)
		if err == nil && isChange {
			return nc.changeInPlace(&next, changes.Setup, noop)
		}
		if err == nil {
			err = nc.checkSameSteps(changes.Setup)
		}
		if err != nil {
			return nil, err
		}
	}
	change := changesBetween(&nc.rec.Desired, &next)
	if change == nil || noop {
		return change, nil
	}
	return change, nc.changeDesired(next)
}

// changeDesired saves the next desired state, and makes the controller reconcile the node with it.
// nc.mu is held.
func (nc *nodeController) changeDesired(next desired) error {
	if nc.hasSteps() && next.stage() != nc.rec.Desired.stage() {
		if err := nc.steps.SetStage(next.stage()); err != nil && !next.Removing {
			return err
		}
		nc.rec.Desired.SetupStage = next.SetupStage // get reports what the journal has
	}
	rec := nc.rec
	if losesUsers(rec.Desired.Users, next.Users) {
		rec.KeyLost = rec.Change + 1
	}
	rec.Desired, rec.Change = next, rec.Change+1
	err := nc.saveRecord(rec)
	if err != nil && next.Removing {
		err = nc.removeRecord(rec, err)
	}
	if err != nil {
		return err
	}
	nc.setState(provider.StateChanging, "waiting for its turn")
	nc.wake()
	if s := nc.slice; s != nil {
		s.schedulePeerUpdate()
	}
	return nil
}

// createNode checks the request for a new node, and creates it. It returns its attributes as changes. If
// noop is true, it only checks.
func (t *Testbed) createNode(u update, imageNames []string, noop bool) (object, error) {
	if !isID(u.Name) {
		return nil, provider.Refuse(provider.Failed, "%.80q cannot be the name of a node; it must be a UUID", u.Name)
	}
	next := desired{Power: provider.On, SetupStage: "0"}
	if err := u.Should.apply(&next); err != nil {
		return nil, err
	}
	kind, err := t.checkNew(&next, imageNames)
	if err != nil {
		return nil, err
	}
	limits := node.Limits{CPUs: kind.CPUs, Memory: kind.Memory, PIDs: kind.PIDs, Disk: kind.Disk}
	if err := grant(&limits, u.Should.Granted); err != nil {
		return nil, err
	}
	steps, err := parseSteps(u.Should.Setup)
	if err == nil {
		err = t.checkCloudInit(steps, next.imageName())
	}
	if err != nil {
		return nil, err
	}
	disks, err := t.disksOf(steps)
	if err != nil {
		return nil, err
	}
	change := changesBetween(nil, &next)
	if noop {
		if t.lacksDiskSpace() {
			return nil, errNoDisk
		}
		return change, nil
	}
	rec := record{Desired: next, Change: 1, Limits: limits, Restarted: next.RestartSerial, Disks: disks, Steps: len(steps)}
	if err := t.addNode(u.Name, rec, steps); err != nil {
		return nil, err
	}
	return change, nil
}

// grant raises the limits to the granted memory and number of processors. Other features are
// what a sliver type has anyway.
func grant(limits *node.Limits, items *[]string) error {
	if items == nil {
		return nil
	}
	granted, _, err := match.ParseItems(*items)
	if err != nil {
		return provider.Refuse(provider.Failed, "granted: %v", err)
	}
	limits.Memory = max(limits.Memory, int64(granted["memory.size"].Max))
	limits.CPUs = max(limits.CPUs, granted["cpu.count"].Max)
	return nil
}
