package lxd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"patchbay/inventory/provider"
)

type update = provider.CallUpdate[json.RawMessage]

// set accepts the updates: it writes them to the folder, and the worker carries them out. In a dry
// run it only checks them.
func (p *program) set(ctx context.Context, updates []update, noop bool) (object, error) {
	before, err := p.folder.ids()
	if err != nil {
		return nil, err
	}
	existing, err := p.client.instances(ctx)
	if err != nil {
		return nil, err
	}
	members, _, err := p.client.members(ctx)
	if err != nil {
		return nil, err
	}
	release, err := p.folder.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	after, err := p.folder.ids()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(before, func(id string) bool { return !slices.Contains(after, id) }) {
		// The list may be older than the result of these requests.
		if existing, err = p.client.instances(ctx); err != nil {
			return nil, err
		}
	}
	nodes, err := p.nodes(existing)
	if err != nil {
		return nil, err
	}
	r := &setCall{program: p, noop: noop, existing: existing, members: members, before: nodes, nodes: maps.Clone(nodes), absent: map[string]*node{}, refused: []object{}, links: map[string]error{}}
	accepted := r.check(ctx, r.mergeAll(updates))
	if !noop {
		if err := r.write(accepted); err != nil {
			return nil, err
		}
		p.startWorker()
	}
	return object{"derive": true, "changes": r.refused}, nil
}

// setCall is a call of set.
type setCall struct {
	*program
	noop          bool
	existing      []instance
	members       []member
	bridges       []bridge         // nil until they are needed
	usedLinks     int              // links of all nodes, known with bridges
	setups        int              // bytes, as setupSize, of all nodes; 0 until it is needed
	ends          ends             // with the call's changes
	agreeing      ends             // those whose properties must agree, see checkLinks
	links         map[string]error // those of the call that were checked, by iface.linkKey
	before, nodes map[string]*node // all nodes, before and after the call
	absent        map[string]*node // those that the call removes
	refused       []object
}

// refuse records the refusal of a node's update, and undoes its change of r.nodes.
func (r *setCall) refuse(name string, err error) {
	if delete(r.nodes, name); r.before[name] != nil {
		r.nodes[name] = r.before[name]
	}
	entry := provider.Failure(err)
	entry["name"] = name
	r.refused = append(r.refused, entry)
}

// mergeAll merges the updates into r.nodes, and returns the names of the nodes that it has not refused. Links need all
// nodes of the call, so they are checked later.
func (r *setCall) mergeAll(updates []update) (names []string) {
	for _, u := range updates {
		old := r.before[u.Name]
		n, err := merge(u, old)
		if err == nil && n.Ensure == provider.Present && old != nil && old.lost {
			err = lostError(old.Component)
		}
		if err != nil {
			r.refuse(u.Name, err)
			continue
		}
		names = append(names, u.Name)
		if r.nodes[u.Name] = n; n.Ensure == provider.Absent {
			delete(r.nodes, u.Name)
			r.absent[u.Name] = n
		}
	}
	return names
}

// check checks the nodes after the updates, and returns the names of those that it has not refused.
func (r *setCall) check(ctx context.Context, names []string) []string {
	r.ends = endsOf(r.nodes)
	r.agreeing = r.ends
	if !r.noop {
		called := maps.Clone(r.nodes)
		maps.DeleteFunc(called, func(name string, _ *node) bool { return !slices.Contains(names, name) })
		r.agreeing = endsOf(called)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		n, old := r.nodes[name], r.before[name]
		if n == nil {
			return false
		}
		err := r.settings.check(n)
		changed := old == nil || old.ChangeSerial != n.ChangeSerial
		if err == nil {
			err = r.checkLinks(n)
		}
		if err == nil && changed {
			err = r.checkSetups(n)
		}
		if err == nil && old != nil && changed {
			err = r.checkSteps(n)
		}
		if err == nil {
			err = checkMember(r.members, n, old == nil)
		}
		if err == nil && changed {
			err = r.checkBridges(ctx, n)
		}
		if err == nil && old != nil {
			err = checkFixed(old, n)
		}
		if err != nil {
			r.refuse(name, err)
		}
		return err != nil
	})
}

// checkLinks refuses n if one of its links cannot be made between its nodes. A dry run has all changes of the
// slice. Otherwise only the nodes of the call count, since the changes of others may be yet to come; the worker
// waits for them.
func (r *setCall) checkLinks(n *node) error {
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	for _, i := range mine {
		key := i.linkKey()
		err, known := r.links[key]
		if !known {
			err = r.agreeing.check(key)
			r.links[key] = err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Setups are in the configurations of the instances, and so in each list of them. Small ones do not
// count. Sizes are in bytes.
const (
	smallSetup = 16 << 10
	maxSetups  = 64 << 20 // of all nodes together
)

// checkSetups refuses n if its setup and those of all other nodes are too large together.
func (r *setCall) checkSetups(n *node) error {
	if n.setupSize() == 0 {
		return nil
	}
	if r.setups == 0 {
		for _, other := range r.nodes {
			r.setups += other.setupSize()
		}
	}
	if r.setups > maxSetups {
		return provider.Refuse(provider.Full, "the setups of all nodes would have %d MiB together, and the cluster keeps at most %d; let the nodes download their files", r.setups>>20, maxSetups>>20)
	}
	return nil
}

// checkSteps refuses a setup that the steps of the existing node cannot become.
func (r *setCall) checkSteps(n *node) error {
	k := slices.IndexFunc(r.existing, func(i instance) bool { return i.Name == instanceName(n.Name) })
	if k < 0 {
		return nil // it is made with the steps
	}
	_, err := stepsFor(n, &r.existing[k])
	return err
}

// setupSize returns the size of the setup in a list of instances: there it is JSON in JSON in JSON. It
// returns 0 for a small setup.
func (n *node) setupSize() (size int) {
	for _, step := range n.Setup {
		size += len(step)
	}
	if size <= smallSetup {
		return 0
	}
	once, _ := json.Marshal(n.Setup)
	twice, _ := json.Marshal(string(once))
	return len(twice)
}

// write writes the requests for the worker.
func (r *setCall) write(names []string) error {
	waiting, err := r.folder.ids()
	if err != nil {
		return err
	}
	for _, name := range names {
		n, old := r.nodes[name], r.before[name]
		if n == nil && old == nil && !slices.Contains(waiting, name) {
			continue // it does not exist
		}
		if n == nil {
			n = r.absent[name]
		}
		if err := r.folder.write(&pending{Node: *n, Since: time.Now().UTC(), New: n.Ensure == provider.Present && !hasInstance(r.existing, name)}); err != nil {
			return err
		}
	}
	return nil
}

// hasInstance reports whether a node has an instance, which need not be complete.
func hasInstance(existing []instance, id string) bool {
	return slices.ContainsFunc(existing, func(i instance) bool { return i.Name == instanceName(id) })
}

// merge returns the node as it should be after the update; old is the node before, or nil.
func merge(u update, old *node) (*node, error) {
	if !isID(u.Name) {
		return nil, provider.Refuse(provider.Unknown, "%.60q is not the name of a node", u.Name)
	}
	var n node
	if old != nil {
		n = *old
	}
	// Lists are replaced as a whole.
	n.Users, n.Interfaces = slices.Clone(n.Users), slices.Clone(n.Interfaces)
	var named map[string]json.RawMessage
	if err := json.Unmarshal(u.Should, &named); err != nil {
		return nil, fmt.Errorf("the attribute should is not an object: %w", err)
	}
	for key := range named {
		switch key {
		case "users":
			n.Users = nil
		case "interfaces":
			n.Interfaces = nil
		}
	}
	steps, granted := n.Setup, n.Granted
	n.Setup = nil
	if err := json.Unmarshal(u.Should, &n); err != nil {
		return nil, fmt.Errorf("an attribute has the wrong type: %w", err)
	}
	n.Name = u.Name
	if old != nil {
		n.Granted = granted
		// With another serial, the given steps replace the earlier ones, or run on a new disk.
		if n.ReloadSerial == old.ReloadSerial && n.ChangeSerial == old.ChangeSerial {
			n.Setup = steps
		}
	}
	switch n.Ensure {
	case provider.Absent:
	case provider.Present:
		if n.Component == "" || !isName(n.Component) {
			return nil, provider.Refuse(provider.Unknown, "%.60q is not a member of the cluster", n.Component)
		}
	default:
		return nil, provider.Refuse(provider.Unknown, "the node does not exist")
	}
	return &n, nil
}

// checkMember refuses nodes on a member that is unknown, and new nodes on one that is not online.
func checkMember(members []member, n *node, isNew bool) error {
	for _, m := range members {
		switch {
		case m.Name != n.Component:
		case isNew && !m.isOnline():
			return provider.Refuse(provider.Full, "the member %s of the cluster is %s: %s", m.Name, m.Status, m.Message)
		default:
			return nil
		}
	}
	return provider.Refuse(provider.Unknown, "%s is not a member of the cluster", n.Component)
}

// checkFixed refuses another type, image or member for an existing node.
func checkFixed(old, n *node) error {
	switch {
	case old.SliverType != n.SliverType:
		return provider.Refuse(provider.Unsupported, "the sliver type of a node cannot be changed; remove the node first")
	case old.Image != n.Image:
		return provider.Refuse(provider.Unsupported, "the image of a node cannot be changed; remove the node first")
	case old.Component != n.Component:
		return provider.Refuse(provider.Unsupported, "a node cannot move to another component; remove it first")
	}
	return nil
}

// checkBridges refuses n if it has a link, and the pool has too few bridges for the links of all
// nodes.
func (r *setCall) checkBridges(ctx context.Context, n *node) error {
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(mine, func(i iface) bool { return i.linkKey() != "" }) {
		return nil
	}
	if r.bridges == nil {
		if r.bridges, err = r.client.bridges(ctx); err != nil {
			return err
		}
		links := map[string]bool{}
		for i := range r.existing {
			for key := range r.existing[i].facts().Bridges {
				links[key] = true
			}
		}
		for key := range r.ends {
			links[key] = true
		}
		r.usedLinks = len(links)
	}
	if r.usedLinks > len(r.bridges) {
		return provider.Refuse(provider.Full, "the cluster has %d bridges for links, and all are in use", len(r.bridges))
	}
	return nil
}
