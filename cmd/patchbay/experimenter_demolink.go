package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"patchbay/rspec/draw"
)

// What is done inside the nodes to measure the link between them.
const (
	gaugeServe  = `setsid -f patchbay-gauge serve >/dev/null 2>&1`
	gaugeServer = `patchbay-gauge server --time 2s --only tcp,delay --json`
)

// gauged is what patchbay-gauge measures: rates on the line, in bit/s, and times
// in ms, of each direction alone, seen from where it was started.
type gauged struct {
	TCP   struct{ Out, In struct{ Line float64 } }
	Delay struct{ Out, In struct{ Median float64 } }
}

// measure measures the ways between the server and its clients, and shows that
// beside what was asked.
func (d *demo) measure(ctx context.Context, server login, clients ...login) error {
	words := []string{d.sshLine("ann", server, gaugeServe)}
	for _, c := range clients {
		words = append(words, d.sshLine("ann", c, gaugeServer))
	}
	d.step("Measure the LAN, each direction alone", words...)
	p, err := draw.Read([]byte(demoRequest), drawLimits)
	if err != nil {
		return err
	}
	if err := d.ssh(ctx, "ann", server, gaugeServe, ""); err != nil {
		return err
	}
	t := tabwriter.NewWriter(d.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "    from\tto\tcapacity asked\tmeasured\tlatency asked\tmeasured\n")
	for _, c := range clients {
		g, err := d.gauge(ctx, c)
		if err != nil {
			return err
		}
		row := func(from, to string, line, delay float64) {
			asked := askedFor(p, from, to)
			fmt.Fprintf(t, "    %s\t%s\t%s\t%.3g Mbit/s\t%s\t%.3g ms\n", from, to, asked.Capacity, line/1e6, asked.Latency, delay)
		}
		row(c.node, server.node, g.TCP.Out.Line, g.Delay.Out.Median)
		row(server.node, c.node, g.TCP.In.Line, g.Delay.In.Median)
	}
	t.Flush()
	return nil
}

// gauge measures the way between a node and the server, which may need a moment
// to begin.
func (d *demo) gauge(ctx context.Context, at login) (g gauged, err error) {
	for range 20 {
		cmd := exec.CommandContext(ctx, "ssh", slices.Concat(sshOptions, sshWords("ann", at, gaugeServer))...)
		cmd.Dir = d.dir
		var problems strings.Builder
		cmd.Stderr = &problems
		var out []byte
		if out, err = cmd.Output(); err == nil {
			return g, json.Unmarshal(out, &g)
		}
		err = fmt.Errorf("%s: %w: %s", d.sshLine("ann", at, gaugeServer), err, strings.TrimSpace(problems.String()))
		if !strings.Contains(problems.String(), "refused") || pause(ctx) != nil {
			break
		}
	}
	return g, err
}

// askedFor is the property of a direction of the drawn link, in words.
func askedFor(p *draw.Picture, from, to string) draw.Property {
	for _, l := range p.Links {
		for _, x := range l.Properties {
			if strings.HasPrefix(x.Source, from+":") && strings.HasPrefix(x.Dest, to+":") {
				return x
			}
		}
	}
	return draw.Property{}
}
