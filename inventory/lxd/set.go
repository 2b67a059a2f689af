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

// update is an item of the attribute updates.
type update struct {
	Name   string          `json:"name"`
	Should json.RawMessage `json:"should"`
}

// set accepts the updates: it writes them to the folder, and the worker carries them out. In a dry
// run it only checks them.
func (p *program) set(ctx context.Context, updates []update, noop bool) (object, error) {
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
	nodes, err := p.nodes(existing)
	if err != nil {
		return nil, err
	}
	waiting, err := p.folder.ids()
	if err != nil {
		return nil, err
	}
	before := maps.Clone(nodes)
	changes := []object{}
	refuse := func(name string, err error) {
		delete(nodes, name)
		entry := failure(err)
		entry["name"] = name
		changes = append(changes, entry)
	}
	// Links need all nodes of the call, so these are read first.
	var accepted []string
	for _, u := range updates {
		old := before[u.Name]
		n, err := merge(u, old)
		if err == nil && n.Ensure == provider.Present && old != nil && old.lost {
			err = lostError(old.Component)
		}
		if err != nil {
			refuse(u.Name, err)
			continue
		}
		accepted = append(accepted, u.Name)
		if nodes[u.Name] = n; n.Ensure == provider.Absent {
			delete(nodes, u.Name)
		}
	}
	var bridges []bridge
	accepted = slices.DeleteFunc(accepted, func(name string) bool {
		n := nodes[name]
		if n == nil {
			return false
		}
		err := p.check(n, nodes)
		if err == nil {
			err = checkMember(members, n, before[name] == nil)
		}
		if err == nil && before[name] == nil {
			err = p.checkBridges(ctx, n, nodes, existing, &bridges)
		}
		if err == nil && before[name] != nil {
			err = sameSize(before[name], n)
		}
		if err != nil {
			refuse(name, err)
		}
		return err != nil
	})
	if noop {
		return object{"derive": true, "changes": changes}, nil
	}
	for _, name := range accepted {
		n := nodes[name]
		if n == nil {
			if before[name] == nil && !slices.Contains(waiting, name) {
				continue // it does not exist
			}
			n = &node{Name: name, Ensure: provider.Absent}
			if b := before[name]; b != nil {
				*n = *b
				n.Ensure = provider.Absent
			}
		}
		if err := p.folder.write(&pending{Node: *n, Since: time.Now().UTC(), New: n.Ensure == provider.Present && !isMade(existing, name)}); err != nil {
			return nil, err
		}
	}
	p.startWorker()
	return object{"derive": true, "changes": changes}, nil
}

func isMade(existing []instance, id string) bool {
	return slices.ContainsFunc(existing, func(i instance) bool { return i.Name == instanceName(id) })
}

// merge returns the node as it should be; old may be nil.
func merge(u update, old *node) (*node, error) {
	if !isID(u.Name) {
		return nil, refusal{provider.Unknown, fmt.Sprintf("%.60q is not the name of a node", u.Name)}
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
	created := old == nil
	steps, granted := n.Setup, n.Granted
	if err := json.Unmarshal(u.Should, &n); err != nil {
		return nil, fmt.Errorf("an attribute has the wrong type: %w", err)
	}
	n.Name = u.Name
	if !created { // the same node may be requested once more
		n.Setup, n.Granted = steps, granted
	}
	switch n.Ensure {
	case provider.Absent:
	case provider.Present:
		if n.Component == "" || !isName(n.Component) {
			return nil, refusal{provider.Unknown, fmt.Sprintf("%.60q is not a member of the cluster", n.Component)}
		}
	default:
		return nil, refusal{provider.Unknown, "the node does not exist"}
	}
	return &n, nil
}

// checkMember refuses nodes on a member that is unknown, and new nodes on one that is not online.
func checkMember(members []member, n *node, created bool) error {
	for _, m := range members {
		switch {
		case m.Name != n.Component:
		case created && !m.isOnline():
			return refusal{provider.Full, fmt.Sprintf("the member %s of the cluster is %s: %s", m.Name, m.Status, m.Message)}
		default:
			return nil
		}
	}
	return refusal{provider.Unknown, fmt.Sprintf("%s is not a member of the cluster", n.Component)}
}

// sameSize refuses another type, image or member for an existing node.
func sameSize(old, n *node) error {
	switch {
	case old.SliverType != n.SliverType:
		return refusal{provider.Unsupported, "the sliver type of a node cannot be changed; remove the node first"}
	case old.Image != n.Image:
		return refusal{provider.Unsupported, "the image of a node cannot be changed; remove the node first"}
	case old.Component != n.Component:
		return refusal{provider.Unsupported, "a node cannot move to another component; remove it first"}
	}
	return nil
}

// checkBridges refuses n if it has a link, and the pool has too few bridges for the links of all
// nodes. bridges keeps the pool between calls.
func (p *program) checkBridges(ctx context.Context, n *node, nodes map[string]*node, existing []instance, bridges *[]bridge) error {
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(mine, func(i iface) bool { return i.linkKey() != "" }) {
		return nil
	}
	if *bridges == nil {
		if *bridges, err = p.client.bridges(ctx); err != nil {
			return err
		}
	}
	links := map[string]bool{}
	for i := range existing {
		for key := range existing[i].facts().Bridges {
			links[key] = true
		}
	}
	for _, other := range nodes {
		all, _ := other.interfaces()
		for _, i := range all {
			if key := i.linkKey(); key != "" {
				links[key] = true
			}
		}
	}
	if len(links) > len(*bridges) {
		return refusal{provider.Full, fmt.Sprintf("the cluster has %d bridges for links, and all are in use", len(*bridges))}
	}
	return nil
}
