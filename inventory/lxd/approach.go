package lxd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/inventory/local/steprunner"
	"patchbay/inventory/provider"
	plan "patchbay/rspec/setup"
)

// approach brings the node one step closer to what is wanted, from whatever state it is in. It
// returns errAgain until nothing is left to do.
func (w *worker) approach(ctx context.Context, wanted *pending) error {
	n := wanted.Node
	name := instanceName(n.Name)
	i, err := w.client.instance(ctx, name)
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
	switch {
	case i == nil && n.Ensure == provider.Absent:
		w.forget(&n)
		return w.refreshPeers(ctx, &node{Name: n.Name, SliceURN: n.SliceURN}, &n)
	case n.Ensure == provider.Absent:
		w.progress(wanted, "being removed")
		if err := w.uninstall(ctx, &n, i); err != nil {
			return err
		}
		return w.remove(ctx, i)
	case i == nil:
		w.progress(wanted, "being created on "+n.Component)
		return w.create(ctx, &n)
	case !i.isMade() && !w.hasCreated(n.Name):
		return w.complete(ctx, i)
	}
	s, err := stepsFor(&n, i)
	if err != nil {
		return refusal{provider.Failed, err.Error()}
	}
	f, j, known := i.facts(), s.journal, i.node()
	switch {
	case n.ReloadSerial != f.Reloads:
		// The node keeps its names, its hardware addresses and its host keys: they follow from its id.
		w.progress(wanted, "getting a new disk")
		return w.remove(ctx, i)
	case s.changed != nil:
		w.progress(wanted, "its setup is being changed")
		return w.record(ctx, name, s.values(), errAgain)
	case j.Stage != n.stage() && len(n.Setup) > 0:
		j.SetStage(n.stage())
		return w.record(ctx, name, map[string]any{keySteps: j}, errAgain)
	case (n.Power != provider.On || j.Off) && i.Status != statusStopped:
		w.progress(wanted, "being switched off")
		return w.switchOff(ctx, &n, i)
	case n.RestartSerial != f.Restarts && i.Status != statusStopped:
		w.progress(wanted, "being restarted")
		if j.Interrupt(steprunner.ByRestart) {
			return w.record(ctx, name, map[string]any{keySteps: j}, errAgain)
		}
		return w.switchTo(ctx, name, "stop")
	case n.RestartSerial != f.Restarts:
		f.Restarts = n.RestartSerial
		return w.record(ctx, name, map[string]any{keyFacts: f}, errAgain)
	}
	if n.Power == provider.On && j.IsSwitchedOff() {
		j.SwitchOn()
		return w.record(ctx, name, map[string]any{keySteps: j}, errAgain)
	}
	linksChange := known != nil && !known.lost && !slices.Equal(known.Interfaces, n.Interfaces)
	if linksChange {
		w.progress(wanted, "its links are being changed")
		if err := w.changeLinks(ctx, &n, i, &f); err != nil {
			return err
		}
	}
	if n.Power == provider.On {
		if !linksChange {
			w.progress(wanted, "being started")
		}
		if err := w.configure(ctx, &n, i, &f); err != nil {
			return err
		}
	}
	was := &node{}
	if linksChange {
		was = known
	}
	if err := w.limitLinks(ctx, &n, was); err != nil {
		return err
	}
	if wanted.New || linksChange {
		if err := w.refreshPeers(ctx, &n, was); err != nil {
			return err
		}
	}
	if _, known, err := w.knownNodes(ctx, &n); err != nil || n.Power == provider.On && known != f.Known {
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
	w.settled.Store(n.Name, settled{&n, f.Known})
	return nil
}

// switchOff runs the steps for this operation, and then stops the instance.
func (w *worker) switchOff(ctx context.Context, n *node, i *instance) error {
	if r := w.stepRunner(n, i); r != nil {
		r.RunEvent(ctx, plan.Stop, i.Status == statusRunning, func() {})
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
	if j := r.Journal(); isRunning && j.HasEvent(plan.Uninstall) {
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
	r.RunEvent(ctx, plan.Uninstall, isRunning, func() {})
	return ctx.Err()
}

// record writes values as JSON into the instance's configuration, and then returns result.
func (w *worker) record(ctx context.Context, name string, values map[string]any, result error) error {
	if err := w.recordChanges(ctx, &instance{Name: name}, values); err != nil {
		return err
	}
	return result
}

// recordChanges is as record, for the values that differ from those of i. A change takes the server
// about a second of work, so a new node should need none.
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

// forget drops the choices for a node that was never made.
func (w *worker) forget(n *node) {
	w.allocating.Lock()
	defer w.allocating.Unlock()
	delete(w.ports, n.Name)
	maps.DeleteFunc(w.addresses, func(_ netip.Addr, id string) bool { return id == n.Name })
	w.settled.Store(n.Name, settled{})
}

// create asks the server for the instance and waits for it.
func (w *worker) create(ctx context.Context, n *node) error {
	w.mu.Lock()
	delete(w.created, n.Name)
	w.mu.Unlock()
	w.settled.Delete(n.Name)
	kind, _ := w.sliverType(n.SliverType)
	kind, err := n.limits(kind)
	if err != nil {
		return err
	}
	m, ok := w.image(n.Image)
	if !ok {
		return refusal{provider.Unknown, fmt.Sprintf("the image %s is not in the settings of this cluster", n.Image)}
	}
	members, clustered, err := w.client.members(ctx)
	if err != nil {
		return err
	}
	devices, f, err := w.devices(ctx, n, members)
	if err != nil {
		return err
	}
	devices["root"] = map[string]string{"type": "disk", "path": "/", "pool": w.Pool, "size": fmt.Sprintf("%dMiB", kind.Disk)}
	f.Restarts, f.Reloads = n.RestartSerial, n.ReloadSerial
	_, f.HostKeys, err = w.hostKeys(n.Name)
	if err != nil {
		return err
	}
	if _, f.Known, err = w.knownNodes(ctx, n); err != nil {
		return err
	}
	config, err := w.config(n, kind, f)
	if err != nil {
		return err
	}
	k := slices.IndexFunc(members, func(m member) bool { return m.Name == n.Component })
	if k < 0 {
		return refusal{provider.Unknown, fmt.Sprintf("%s is not a member of the cluster", n.Component)}
	}
	template, err := w.template(ctx, m, members[k], clustered)
	if err != nil {
		return err
	}
	_, err = w.client.do(ctx, request{method: http.MethodPost, path: "instances", query: target(members[k], clustered), body: map[string]any{
		"name": instanceName(n.Name), "type": "container", "profiles": []string{}, "ephemeral": false,
		"description": "Patchbay: " + n.SliverURN, "config": config, "devices": devices,
		"source": map[string]any{"type": "copy", "source": template, "instance_only": true},
	}})
	if err != nil && (isStatus(err, http.StatusConflict) || strings.Contains(err.Error(), "already exists")) {
		return errAgain // an earlier worker has asked for it
	}
	if isStatus(err, http.StatusNotFound) || err != nil && strings.Contains(err.Error(), "not found") {
		w.templates.Delete(template)
	}
	if err != nil {
		return fmt.Errorf("the node cannot be created: %w", err)
	}
	w.mu.Lock()
	w.created[n.Name] = true
	w.mu.Unlock()
	return errAgain
}

// maxProcesses is much for an experiment, and little of what a member can have.
const maxProcesses = "4096"

// config returns the configuration of the node's instance.
func (w *worker) config(n *node, kind sliverType, f facts) (map[string]string, error) {
	node, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	known, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	config := map[string]string{
		"limits.cpu": strconv.Itoa(kind.CPUs), "limits.memory": fmt.Sprintf("%dMiB", kind.Memory),
		"security.nesting": "false", "security.privileged": "false",
		"cluster.evacuate": "stop", // the port and the component of a node are those of its member
		"limits.processes": maxProcesses,
		keyNode:            string(node), keyFacts: string(known), keyTemplate: "",
	}
	if len(n.Setup) > 0 {
		steps, err := json.Marshal(journal(n, nil))
		if err != nil {
			return nil, err
		}
		config[keySteps] = string(steps)
	}
	if w.IsolatedIDs {
		config["security.idmap.isolated"] = "true"
	}
	return config, nil
}

// complete deals with an instance whose creation no worker has seen to its end: if the server
// still works on it, complete waits; otherwise it removes the half-made instance.
func (w *worker) complete(ctx context.Context, i *instance) error {
	var running map[string][]operation
	if err := w.client.get(ctx, "operations", url.Values{"recursion": {"1"}}, &running); err != nil {
		return err
	}
	for _, list := range running {
		for _, op := range list {
			for _, paths := range op.Resources {
				for _, path := range paths {
					path, _, _ = strings.Cut(path, "?")
					if strings.HasSuffix(path, "/"+i.Name) && op.StatusCode < 200 {
						_, err := w.client.wait(ctx, answer{Operation: "/1.0/operations/" + op.ID})
						return cmp.Or(err, errAgain)
					}
				}
			}
		}
	}
	w.logf("%s: its creation was interrupted; it is created again", i.Name)
	return w.remove(ctx, i)
}

// hasCreated reports whether this worker has created the instance of the node, which need not be
// complete.
func (w *worker) hasCreated(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.created[id]
}

// remove stops the instance at once and deletes it.
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

// switchTo starts or stops the instance, and reads its status back: an operation may succeed
// although the node does not run.
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

// devices chooses the node's interfaces and its port, and returns them with the facts about them.
func (w *worker) devices(ctx context.Context, n *node, members []member) (map[string]map[string]string, facts, error) {
	w.allocating.Lock()
	defer w.allocating.Unlock()
	mine, err := n.interfaces()
	if err != nil {
		return nil, facts{}, err
	}
	existing, err := w.instances(ctx, len(mine) == 0)
	if err != nil {
		return nil, facts{}, err
	}
	own, err := w.client.ownAddresses(ctx, w.Network)
	if err != nil {
		return nil, facts{}, err
	}
	eth0 := map[string]string{"type": "nic", "name": "eth0", "network": w.Network, "hwaddr": hardwareAddress(n.Name, ""), "security.port_isolation": "true"}
	if slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() }) { // no node can take another's address
		eth0["security.mac_filtering"], eth0["security.ipv4_filtering"] = "true", "true"
	}
	f := facts{}
	devices, bridges, err := w.linkDevices(ctx, n, mine, existing)
	if err != nil {
		return nil, f, err
	}
	devices["eth0"], f.Bridges = eth0, bridges
	if w.Logins == loginsProxy {
		var address string
		for _, m := range members {
			if m.Name == n.Component {
				address = m.host()
			}
		}
		if f.Port, err = w.choosePort(n.Name, existing); err != nil {
			return nil, f, err
		}
		port := strconv.Itoa(f.Port)
		f.Login = net.JoinHostPort(cmp.Or(w.Addresses[n.Component], address), port)
		devices["ssh"] = map[string]string{"type": "proxy", "listen": "tcp:" + net.JoinHostPort(address, port), "connect": "tcp:127.0.0.1:22"}
	}
	return devices, f, nil
}

// listTime is how long a list of instances is good enough to choose a port.
const listTime = 2 * time.Second

// instances returns all instances. If old is true, the list may lack changes of the last listTime,
// since the cluster takes long to describe each instance. It needs w.allocating.
func (w *worker) instances(ctx context.Context, old bool) ([]instance, error) {
	if old && time.Since(w.listedAt) < listTime {
		return w.listed, nil
	}
	at := time.Now()
	all, err := w.client.instances(ctx)
	if err == nil {
		w.listed, w.listedAt = all, at
	}
	return all, err
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

// withWaiting replaces nodes by those that are requested and not made yet. Without leaving, it drops those that
// are being removed.
func (p *program) withWaiting(nodes map[string]*node, leaving bool) (map[string]*node, error) {
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
		case !leaving:
			delete(nodes, id)
		}
	}
	return nodes, nil
}

// choosePort begins at a number that depends on the node, so that a port is seldom used again soon.
func (w *worker) choosePort(id string, existing []instance) (int, error) {
	used := map[int]bool{}
	for i := range existing {
		used[existing[i].facts().Port] = true
	}
	for other, port := range w.ports {
		used[port] = used[port] || other != id
	}
	sum := fnv.New32a()
	sum.Write([]byte(id))
	count := w.LastPort - w.FirstPort + 1
	for k := range count {
		port := w.FirstPort + (int(sum.Sum32()%uint32(count))+k)%count
		if !used[port] {
			w.ports[id] = port
			return port, nil
		}
	}
	return 0, fmt.Errorf("all ports from %d to %d are in use", w.FirstPort, w.LastPort)
}
