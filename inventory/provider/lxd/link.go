package lxd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"patchbay/inventory/provider"
)

// linkMTU is the MTU of links. VXLAN takes 50 bytes of the members' network.
const linkMTU = 1450

// chooseBridges returns a bridge for each link of the interfaces: the one that the link has, or a
// free one, which it records. all has the interfaces of all nodes. The caller must hold w.allocating.
func (w *worker) chooseBridges(ctx context.Context, mine []iface, existing []instance, all ends) (map[string]string, error) {
	maps.DeleteFunc(w.bridges, func(link, _ string) bool { return len(all[link]) == 0 }) // its nodes are gone
	used := map[string]string{}                                                          // link by bridge
	byLink := map[string]string{}
	for link, bridge := range w.bridges {
		used[bridge], byLink[link] = link, bridge
	}
	for i := range existing {
		for link, bridge := range existing[i].facts().Bridges {
			used[bridge], byLink[link] = link, bridge
		}
	}
	var pool []bridge
	chosen := map[string]string{}
	for _, i := range mine {
		link := i.linkKey()
		if link == "" || chosen[link] != "" {
			continue
		}
		if byLink[link] != "" {
			// The nodes that have the bridge may leave the link before this one is recorded there.
			chosen[link], w.bridges[link] = byLink[link], byLink[link]
			continue
		}
		if pool == nil {
			var err error
			if pool, err = w.client.bridges(ctx); err != nil {
				return nil, err
			}
		}
		for _, b := range pool {
			if used[b.Name] == "" && len(b.UsedBy) == 0 {
				chosen[link] = b.Name
				break
			}
		}
		if chosen[link] == "" {
			return nil, fmt.Errorf("the cluster has %d bridges for links, and all are in use", len(pool))
		}
		used[chosen[link]], byLink[link], w.bridges[link] = link, chosen[link], chosen[link]
	}
	return chosen, nil
}

// linkDevices returns the devices for interfaces of n, by their names, and the bridges of their links. The caller must
// hold w.allocating.
func (w *worker) linkDevices(ctx context.Context, n *node, mine []iface, existing []instance) (devices map[string]map[string]string, bridges map[string]string, err error) {
	nodes, err := w.remaining(existing)
	if err != nil {
		return nil, nil, err
	}
	if bridges, err = w.chooseBridges(ctx, mine, existing, endsOf(nodes)); err != nil {
		return nil, nil, err
	}
	devices, all := map[string]map[string]string{}, endsToLimit(nodes, n)
	for _, i := range mine {
		network := bridges[i.linkKey()]
		if i.SharedVLAN != "" {
			network = w.SharedVLANs[i.SharedVLAN]
		}
		if network == "" {
			continue // it is on no link
		}
		d := map[string]string{"type": "nic", "name": i.name, "network": network, "hwaddr": i.mac}
		limit, err := all.ingress(&i)
		if err != nil {
			return nil, nil, waitForOthers(err)
		}
		if limit != "" {
			d["limits.ingress"] = limit
		}
		devices[i.name] = d
	}
	return devices, bridges, nil
}

// noDevice takes the place of a device that was removed: a change of some devices keeps all others.
var noDevice = map[string]string{"type": "none"}

// changeLinks makes the devices of an instance those of the interfaces of n, and sets f.Bridges. It returns errAgain
// after a change.
func (w *worker) changeLinks(ctx context.Context, n *node, i *instance, f *facts) error {
	w.linking.Lock()
	defer w.linking.Unlock()
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	now, err := w.client.instance(ctx, i.Name)
	if err != nil || now == nil {
		return cmp.Or(err, errAgain)
	}
	now.setNames(mine)
	w.allocating.Lock()
	defer w.allocating.Unlock()
	existing, err := w.instances(ctx, false)
	if err != nil {
		return err
	}
	nodes, err := w.remaining(existing)
	if err != nil {
		return err
	}
	all := endsToLimit(nodes, n)
	for _, m := range mine {
		if err := all.check(m.linkKey()); err != nil {
			return waitForOthers(err)
		}
	}
	devices, bridges, err := w.linkDevices(ctx, n, mine, existing)
	if err != nil {
		return err
	}
	changed := map[string]map[string]string{}
	for name, d := range devices {
		current := maps.Clone(now.Devices[name])
		maps.DeleteFunc(current, func(_, value string) bool { return value == "" })
		if !maps.Equal(current, d) {
			changed[name] = d
		}
	}
	for name, d := range now.Devices {
		if d["type"] == "nic" && name != "eth0" && devices[name] == nil {
			changed[name] = noDevice
		}
	}
	f.Bridges = bridges
	if len(changed) == 0 {
		return nil
	}
	if err := w.client.patch(ctx, i.Name, nil, changed); err != nil {
		return fmt.Errorf("the links of the node cannot be changed: %w", err)
	}
	return errAgain
}

// setNames gives interfaces the names that they have in the instance, and others a name that is free there.
func (i *instance) setNames(mine []iface) {
	byMAC, used := map[string]string{}, map[string]bool{}
	for name, d := range i.Devices {
		if d["type"] == "nic" {
			byMAC[d["hwaddr"]], used[name] = name, true
		}
	}
	for k := range mine {
		mine[k].name = byMAC[mine[k].mac]
	}
	for k, number := 0, 1; k < len(mine); k++ {
		for ; mine[k].name == ""; number++ {
			if name := fmt.Sprintf("eth%d", number); !used[name] {
				mine[k].name, used[name] = name, true
			}
		}
	}
}

// endsToLimit returns the interfaces whose sending is limited. If a link of n has nodes that do not agree, only n and those that are
// on count, since requests for others come when these are switched on.
func endsToLimit(nodes map[string]*node, n *node) ends {
	all := endsOf(nodes)
	mine, _ := n.interfaces() // a mistake was refused when it was requested
	if !slices.ContainsFunc(mine, func(i iface) bool { return all.check(i.linkKey()) != nil }) {
		return all
	}
	on := map[string]*node{n.Name: n}
	for id, other := range nodes {
		if other.Power == provider.On && id != n.Name {
			on[id] = other
		}
	}
	return endsOf(on)
}

// waitForOthers makes an error temporary: when several nodes of a link change, the requests come one by one.
func waitForOthers(err error) error {
	return fmt.Errorf("the other nodes of a link are not requested to change alike: %v", err)
}

// limitLinks makes the other ends of the node's links receive no more than the node may send. was has the
// interfaces of the node before a change.
func (w *worker) limitLinks(ctx context.Context, n, was *node) error {
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	left, _ := was.interfaces() // a mistake was refused when it was requested
	links := map[string]bool{}
	limited := false
	for _, i := range append(mine, left...) {
		if links[i.linkKey()] = true; len(i.Properties) > 0 {
			limited = true
		}
	}
	if !limited {
		return nil
	}
	existing, err := w.client.instances(ctx)
	if err != nil {
		return err
	}
	nodes, err := w.remaining(existing)
	if err != nil {
		return err
	}
	all := endsToLimit(nodes, n)
	for k := range existing {
		if existing[k].node() == nil {
			continue
		}
		changed, err := existing[k].newLimits(nodes, links, all)
		if err == nil && len(changed) > 0 {
			err = w.limitInstance(ctx, existing[k].Name, nodes, links, all)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitInstance sets the limits of an instance's devices on the links. It reads the instance again, since its devices
// may have changed.
func (w *worker) limitInstance(ctx context.Context, name string, nodes map[string]*node, links map[string]bool, all ends) error {
	w.linking.Lock()
	defer w.linking.Unlock()
	i, err := w.client.instance(ctx, name)
	if err != nil || i.node() == nil {
		return err
	}
	changed, err := i.newLimits(nodes, links, all)
	if err != nil || len(changed) == 0 {
		return err
	}
	if err := w.client.patch(ctx, name, nil, changed); err != nil && !isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("the capacity of a link cannot be set: %w", err)
	}
	return nil
}

// newLimits returns the devices on the links whose limits differ, as they should be.
func (i *instance) newLimits(nodes map[string]*node, links map[string]bool, all ends) (map[string]map[string]string, error) {
	n := nodes[i.node().Name] // its request may be newer
	if n == nil {
		return nil, nil
	}
	theirs, err := n.interfaces()
	if err != nil {
		return nil, nil // it is refused elsewhere
	}
	i.setNames(theirs)
	changed := map[string]map[string]string{}
	for _, to := range theirs {
		d := i.Devices[to.name]
		if !links[to.linkKey()] || to.linkKey() == "" || d["hwaddr"] != to.mac {
			continue
		}
		limit, err := all.ingress(&to)
		if err != nil {
			return nil, waitForOthers(err)
		}
		if d["limits.ingress"] != limit {
			d = maps.Clone(d)
			d["limits.ingress"] = limit
			changed[to.name] = d
		}
	}
	return changed, nil
}

// ends are the interfaces of all nodes, by iface.linkKey.
type ends map[string][]iface

func endsOf(nodes map[string]*node) ends {
	e := ends{}
	for _, n := range nodes {
		all, err := n.interfaces()
		if err != nil {
			continue // it is refused elsewhere
		}
		for _, i := range all {
			if key := i.linkKey(); key != "" {
				e[key] = append(e[key], i)
			}
		}
	}
	return e
}

// check refuses a link whose properties differ where one mechanism makes them for all.
func (e ends) check(key string) error {
	for _, end := range e[key] {
		if _, err := e.ingress(&end); err != nil {
			return err
		}
		if p, err := end.netem(); err != nil || p == (netem{}) {
			continue
		}
		for _, to := range e[key] {
			if p, named := end.propertiesTo(to.ClientID); to.node != end.node && (!named || p.netem() == (netem{})) {
				return end.differs("latency or packet_loss", "the receivers of one interface")
			}
		}
	}
	return nil
}

// ingress returns what an interface may receive, for the key limits.ingress. The cluster limits what
// an interface receives from all others together, so all must have the same capacity towards it.
func (e ends) ingress(to *iface) (limit string, err error) {
	first, kbits := true, int64(0)
	for _, from := range e[to.linkKey()] {
		if from.node == to.node {
			continue
		}
		p, _ := from.propertiesTo(to.ClientID)
		if !first && p.Capacity != kbits {
			return "", to.differs("capacity", "the senders to one interface")
		}
		first, kbits = false, p.Capacity
	}
	if kbits > 0 {
		limit = strconv.FormatInt(kbits, 10) + "kbit"
	}
	return limit, nil
}

// differs returns the refusal of a link whose properties differ.
func (i *iface) differs(properties, between string) error {
	return provider.Refuse(provider.Unsupported, "link %.80s asks for %s that differs between %s, which cannot be made here", i.Link, properties, between)
}

// propertiesTo returns the properties of frames to another interface. named means that an item is about
// them.
func (i *iface) propertiesTo(clientID string) (p property, named bool) {
	for _, q := range i.Properties {
		if slices.Contains(q.To, clientID) {
			return q, true
		}
		if len(q.To) == 0 {
			p, named = q, true
		}
	}
	return p, named
}

// netem describes how a node delays and loses the frames that it sends, to all receivers alike.
type netem struct {
	delay time.Duration
	loss  float64 // of a hundred frames
}

func (p *property) netem() netem {
	return netem{time.Duration(p.Latency * float64(time.Millisecond)), p.PacketLoss}
}

// netem returns how the node delays and loses the frames of the interface. It fails if that differs between receivers.
func (i *iface) netem() (n netem, err error) {
	for k, p := range i.Properties {
		if k > 0 && p.netem() != n {
			return n, i.differs("latency or packet_loss", "the receivers of one interface")
		}
		n = p.netem()
	}
	return n, nil
}
