package lxd

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// WriteMetrics writes the state of the cluster in Prometheus's text format. Sizes are in bytes.
func WriteMetrics(ctx context.Context, dir, name string, out io.Writer) error {
	p, err := open(dir, name)
	if err != nil {
		return err
	}
	members, clustered, err := p.client.members(ctx)
	if err != nil {
		return err
	}
	all, err := p.client.instances(ctx)
	if err != nil {
		return err
	}
	bridges, err := p.client.bridges(ctx)
	if err != nil {
		return err
	}
	waiting, err := p.folder.ids()
	if err != nil {
		return err
	}
	nodes, foreign := map[string]map[string]int{}, 0
	for i := range all {
		n := all[i].node()
		if n == nil {
			if !all[i].isTemplate() {
				foreign++
			}
			continue
		}
		if nodes[n.Component] == nil {
			nodes[n.Component] = map[string]int{}
		}
		nodes[n.Component][all[i].Status]++
	}
	used := 0
	for _, b := range bridges {
		if len(b.UsedBy) > 0 {
			used++
		}
	}
	m := metrics{provider: name}
	m.add("link_bridges", "bridges for links", "", len(bridges))
	m.add("link_bridges_used", "bridges that links use", "", used)
	m.add("nodes_waiting", "nodes that are not yet as requested", "", len(waiting))
	m.add("foreign_instances", "instances of the project that are not nodes", "", foreign)
	for _, x := range members {
		m.add("nodes_running", "running nodes of the member", x.Name, nodes[x.Name][statusRunning])
		m.add("nodes_stopped", "stopped nodes of the member", x.Name, nodes[x.Name][statusStopped])
		m.add("nodes_lost", "nodes of a member that does not answer", x.Name, nodes[x.Name][statusError])
		if !x.isOnline() {
			m.add("member_online", "1 if the member is online", x.Name, 0)
			continue
		}
		m.add("member_online", "1 if the member is online", x.Name, 1)
		r, err := p.client.resources(ctx, x, clustered)
		if err != nil {
			return fmt.Errorf("the member %s: %w", x.Name, err)
		}
		disk, err := p.client.poolSpace(ctx, p.Pool, x, clustered)
		if err != nil {
			return fmt.Errorf("the pool of the member %s: %w", x.Name, err)
		}
		m.add("memory_bytes", "memory of the member", x.Name, r.Memory.Total)
		m.add("memory_used_bytes", "used memory of the member", x.Name, r.Memory.Used)
		m.add("pool_bytes", "size of the storage pool on the member", x.Name, disk.Total)
		m.add("pool_used_bytes", "used space of the storage pool on the member", x.Name, disk.Used)
	}
	return m.write(out)
}

// metrics are gauges in the order of their first samples.
type metrics struct {
	provider string
	gauges   []*gauge
}

type gauge struct {
	name, help string
	samples    []byte
}

// add adds a sample; member may be empty.
func (m *metrics) add(name, help, member string, value any) {
	name = "patchbay_lxd_" + name
	k := slices.IndexFunc(m.gauges, func(g *gauge) bool { return g.name == name })
	if k < 0 {
		k = len(m.gauges)
		m.gauges = append(m.gauges, &gauge{name: name, help: help})
	}
	labels := fmt.Sprintf("provider=%q", m.provider)
	if member != "" {
		labels += fmt.Sprintf(",member=%q", member)
	}
	m.gauges[k].samples = fmt.Appendf(m.gauges[k].samples, "%s{%s} %v\n", name, labels, value)
}

func (m *metrics) write(out io.Writer) error {
	for _, g := range m.gauges {
		if _, err := fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n%s", g.name, g.help, g.name, g.samples); err != nil {
			return err
		}
	}
	return nil
}
