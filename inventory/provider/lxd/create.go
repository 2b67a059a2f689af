package lxd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// create makes the instance of a node as a copy of the template on its member. It returns errAgain when the instance
// exists.
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
		return provider.Refuse(provider.Unknown, "the image %s is not in the settings of this cluster", n.Image)
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
		return provider.Refuse(provider.Unknown, "%s is not a member of the cluster", n.Component)
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

// awaitOrRemove deals with an instance whose creation no worker has seen to its end. If the server still works on it,
// awaitOrRemove waits; otherwise it removes the half-made instance.
func (w *worker) awaitOrRemove(ctx context.Context, i *instance) error {
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

// instances returns all instances. If mayBeOld is true, the list may lack changes of the last listTime,
// since the cluster takes long to describe each instance. The caller must hold w.allocating.
func (w *worker) instances(ctx context.Context, mayBeOld bool) ([]instance, error) {
	if mayBeOld && time.Since(w.listedAt) < listTime {
		return w.listed, nil
	}
	at := time.Now()
	all, err := w.client.instances(ctx)
	if err == nil {
		w.listed, w.listedAt = all, at
	}
	return all, err
}

// choosePort returns a free port for a node, and records it. It begins at a number that depends on the node, so that a
// port is seldom used again soon. The caller must hold w.allocating.
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
