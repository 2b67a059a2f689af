package lxd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/rspec/step"
)

// approach brings the node one step closer to what is wanted, from whatever state it is in. It
// returns errAgain until nothing is left to do.
func (w *worker) approach(ctx context.Context, wanted *pending) error {
	n := wanted.Node
	i, err := w.client.instance(ctx, instanceName(n.Name))
	if err != nil {
		return err
	}
	if wanted.Refresh { // the request may be old
		known := i.node()
		if known == nil || known.lost {
			return nil
		}
		n = *known
	}
	a := w.existenceAction(&n, i)
	if a.do == nil {
		if a, err = w.changeAction(&n, i); err != nil {
			return err
		}
	}
	if a.do == nil {
		return w.adjust(ctx, wanted, &n, i)
	}
	if a.progress != "" {
		w.progress(wanted, a.progress)
	}
	return a.do(ctx)
}

// action is a step towards what is wanted of a node. do is nil if there is nothing to do.
type action struct {
	progress string // "" for a step that users need not see
	do       func(context.Context) error
}

// existenceAction returns the action that creates or removes the instance i, which is nil if there is none.
func (w *worker) existenceAction(n *node, i *instance) action {
	switch {
	case i == nil && n.Ensure == provider.Absent:
		return action{"", func(ctx context.Context) error {
			w.forget(n)
			return w.refreshPeers(ctx, &node{Name: n.Name, SliceURN: n.SliceURN}, n)
		}}
	case n.Ensure == provider.Absent:
		return action{"being removed", func(ctx context.Context) error {
			if err := w.uninstall(ctx, n, i); err != nil {
				return err
			}
			return w.remove(ctx, i)
		}}
	case i == nil:
		return action{"being created on " + n.Component, func(ctx context.Context) error { return w.create(ctx, n) }}
	case !i.isMade() && !w.hasCreated(n.Name):
		return action{"", func(ctx context.Context) error { return w.awaitOrRemove(ctx, i) }}
	}
	return action{}
}

// changeAction returns the action for a new disk, another setup, a restart, or switching off. The node is switched on by
// adjust.
func (w *worker) changeAction(n *node, i *instance) (action, error) {
	s, err := stepsFor(n, i)
	if err != nil {
		return action{}, provider.Refuse(provider.Failed, "%v", err)
	}
	f, j := i.facts(), &s.journal
	record := func(values map[string]any) func(context.Context) error {
		return func(ctx context.Context) error {
			return cmp.Or(w.recordChanges(ctx, &instance{Name: i.Name}, values), errAgain)
		}
	}
	switch {
	case n.ReloadSerial != f.Reloads:
		// The node keeps its names, its hardware addresses and its host keys: they follow from its id.
		return action{"getting a new disk", func(ctx context.Context) error { return w.remove(ctx, i) }}, nil
	case s.changed != nil:
		return action{"its setup is being changed", record(s.values())}, nil
	case j.Stage != n.stage() && len(n.Setup) > 0:
		j.SetStage(n.stage())
		return action{"", record(map[string]any{keySteps: *j})}, nil
	case (n.Power != provider.On || j.Off) && i.Status != statusStopped:
		return action{"being switched off", func(ctx context.Context) error { return w.switchOff(ctx, n, i) }}, nil
	case n.RestartSerial != f.Restarts && i.Status != statusStopped:
		a := action{"being restarted", func(ctx context.Context) error { return w.switchTo(ctx, i.Name, "stop") }}
		if j.Interrupt(steprunner.ByRestart) {
			a.do = record(map[string]any{keySteps: *j})
		}
		return a, nil
	case n.RestartSerial != f.Restarts:
		f.Restarts = n.RestartSerial
		return action{"", record(map[string]any{keyFacts: f})}, nil
	case n.Power == provider.On && j.IsSwitchedOff():
		j.SwitchOn()
		return action{"", record(map[string]any{keySteps: *j})}, nil
	}
	return action{}, nil
}

// adjust gives an instance its links and accounts, and starts it. Then it records that the node is as it is
// wanted. It returns errAgain if the nodes whose names it knows have changed meanwhile.
func (w *worker) adjust(ctx context.Context, wanted *pending, n *node, i *instance) error {
	f, was := i.facts(), &node{} // was has the interfaces before a change of links
	recorded := i.node()
	linksChange := recorded != nil && !recorded.lost && !slices.Equal(recorded.Interfaces, n.Interfaces)
	if linksChange {
		was = recorded
		w.progress(wanted, "its links are being changed")
		if err := w.changeLinks(ctx, n, i, &f); err != nil {
			return err
		}
	}
	if n.Power == provider.On {
		if !linksChange {
			w.progress(wanted, "being started")
		}
		if err := w.configure(ctx, n, i, &f); err != nil {
			return err
		}
	}
	if err := w.limitLinks(ctx, n, was); err != nil {
		return err
	}
	if wanted.New || linksChange {
		if err := w.refreshPeers(ctx, n, was); err != nil {
			return err
		}
	}
	if _, hash, err := w.knownNodes(ctx, n); err != nil || n.Power == provider.On && hash != f.Known {
		return cmp.Or(err, errAgain) // there are other nodes now
	}
	values := map[string]any{keyNode: n, keyFacts: f}
	if n.Power != provider.On && !i.isMade() {
		values[keyMade] = true
	}
	if err := w.recordChanges(ctx, i, values); err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.created, n.Name)
	w.mu.Unlock()
	n.Setup = nil // it is not used here, and may be large
	w.settled.Store(n.Name, settled{n, f.Known})
	return nil
}

// switchOff runs the steps for this operation, and then stops the instance.
func (w *worker) switchOff(ctx context.Context, n *node, i *instance) error {
	if r := w.stepRunner(n, i); r != nil {
		r.RunEvent(ctx, step.Stop, i.Status == statusRunning, func() {})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := r.Change(func(j *steprunner.Journal) bool {
			interrupted := j.Interrupt(steprunner.ByPowerOff)
			return j.SwitchOff() || interrupted
		})
		if err != nil {
			return err
		}
	}
	return w.switchTo(ctx, i.Name, "stop")
}

// uninstall runs the steps for this operation, after it has closed the logins.
func (w *worker) uninstall(ctx context.Context, n *node, i *instance) error {
	r := w.stepRunner(n, i)
	if r == nil || n.stage() < 0 || !i.isMade() {
		return nil
	}
	isRunning := i.Status == statusRunning
	if j := r.Journal(); isRunning && j.HasEvent(step.Uninstall) {
		closed, f := *n, i.facts()
		closed.Users = nil
		for _, item := range n.Users {
			var u user
			_ = json.Unmarshal([]byte(item), &u) // checked when it was requested
			text, _ := json.Marshal(user{Login: u.Login})
			closed.Users = append(closed.Users, string(text))
		}
		if err := w.configure(ctx, &closed, i, &f); err != nil {
			w.logf("%s: its logins are not closed before the last steps: %v", n.Name, err)
		}
	}
	r.RunEvent(ctx, step.Uninstall, isRunning, func() {})
	return ctx.Err()
}

// recordChanges writes values as JSON into the instance's configuration, if they differ from those of i. A change takes
// the server about a second of work, so a new node should need none.
func (w *worker) recordChanges(ctx context.Context, i *instance, values map[string]any) error {
	config := map[string]string{}
	for key, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if i.Config[key] != string(b) {
			config[key] = string(b)
		}
	}
	if len(config) == 0 {
		return nil
	}
	return w.client.patch(ctx, i.Name, config, nil)
}

// forget releases the port and the addresses that were chosen for a node that does not exist, and records that it is
// gone.
func (w *worker) forget(n *node) {
	w.allocating.Lock()
	defer w.allocating.Unlock()
	delete(w.ports, n.Name)
	maps.DeleteFunc(w.addresses, func(_ netip.Addr, id string) bool { return id == n.Name })
	w.settled.Store(n.Name, settled{})
}

// remove stops the instance at once and deletes it. It returns errAgain, unless it fails.
func (w *worker) remove(ctx context.Context, i *instance) error {
	if i.Status == statusError {
		return fmt.Errorf("the member %s of the cluster does not answer, so the node cannot be removed yet", i.Location)
	}
	if i.Status != statusStopped {
		_, err := w.client.do(ctx, request{method: http.MethodPut, path: "instances/" + i.Name + "/state", body: map[string]any{"action": "stop", "force": true, "timeout": -1}})
		if err != nil && !strings.Contains(err.Error(), "already stopped") && !isStatus(err, http.StatusNotFound) && !errors.Is(err, errLostOperation) {
			return err
		}
	}
	_, err := w.client.do(ctx, request{method: http.MethodDelete, path: "instances/" + i.Name})
	if err != nil && !isStatus(err, http.StatusNotFound) && !errors.Is(err, errLostOperation) {
		return err
	}
	return errAgain // until the instance is seen to be gone
}

// switchTo starts or stops the instance: action is start or stop. It returns errAgain if the status has changed as
// requested. It reads the status back, because an operation may succeed although the node does not run.
func (w *worker) switchTo(ctx context.Context, name, action string) error {
	body := map[string]any{"action": action, "timeout": stopTime}
	_, err := w.client.do(ctx, request{method: http.MethodPut, path: "instances/" + name + "/state", body: body})
	if err != nil && action == "stop" {
		body["force"], body["timeout"] = true, -1
		_, err = w.client.do(ctx, request{method: http.MethodPut, path: "instances/" + name + "/state", body: body})
	}
	i, look := w.client.instance(ctx, name)
	if look != nil || i == nil {
		return errors.Join(err, look, errAgain)
	}
	if (i.Status == statusRunning) == (action == "start") {
		return errAgain
	}
	return cmp.Or(err, fmt.Errorf("the node is %s after the server said that %s had succeeded; the cluster's operators can see why with: lxc info --show-log %s", i.Status, action, name))
}

// nodes returns all nodes: those of the instances, as they shall be, and those that have no instance
// yet.
func (p *program) nodes(existing []instance) (map[string]*node, error) {
	return p.withWaiting(nodesOf(existing), true)
}

// remaining is as nodes, without those that are being removed.
func (p *program) remaining(existing []instance) (map[string]*node, error) {
	return p.withWaiting(nodesOf(existing), false)
}

// withWaiting replaces nodes by those that are requested and not made yet. It drops those that are being removed,
// unless keepLeaving is true.
func (p *program) withWaiting(nodes map[string]*node, keepLeaving bool) (map[string]*node, error) {
	waiting, err := p.folder.ids()
	if err != nil {
		return nil, err
	}
	for _, id := range waiting {
		w, err := p.folder.read(id)
		switch {
		case err != nil || w == nil || w.Refresh:
		case w.Node.Ensure == provider.Present:
			nodes[id] = &w.Node
		case !keepLeaving:
			delete(nodes, id)
		}
	}
	return nodes, nil
}
