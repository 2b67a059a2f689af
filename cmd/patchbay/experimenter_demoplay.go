package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/rspec/draw"
)

// demoRequest asks for a server with two clients, one of them behind a slow way.
// The archive in its URL holds testdata/greet.pl.
//
//go:embed testdata/demo.xml
var demoRequest string

// demoNodes is how many nodes it asks for.
const demoNodes = 3

// play is the life of an experiment, from the first question to the end.
func (d *demo) play(ctx context.Context) error {
	urns := []string{d.slice}
	before, err := d.ask(ctx)
	if err != nil {
		return err
	}
	d.step("Write down what the experiment needs, and look at it", d.drawLines(site.RequestName)...)
	part, err := excerpt(demoRequest, "node")
	if err != nil {
		return err
	}
	d.document("the first node of the request", part)
	if err := d.draw(site.RequestName, demoRequest); err != nil {
		return err
	}

	d.step("Reserve it", d.callLine("Allocate", site.RequestName))
	a, reply, err := d.client.Allocate(ctx, d.slice, d.creds, demoRequest, client.Options{})
	if err != nil {
		return err
	}
	d.slivers(a.Slivers)
	if reply.Output != "" {
		d.say("It says: %s", reply.Output)
	}
	if err := expect(a.Slivers, string(am.Allocated), ""); err != nil {
		return err
	}

	d.step("Make it real, with an account for the user", d.callLine("Provision"))
	user := client.User{URN: d.user.URN.String(), Keys: []string{string(d.user.SSHPublicKey)}}
	if a, _, err = d.client.Provision(ctx, urns, d.creds, client.Options{Users: []client.User{user}}); err != nil {
		return err
	}
	d.slivers(a.Slivers)
	if err := d.await(ctx, am.NotReady); err != nil {
		return err
	}

	d.step("Switch the nodes on", d.callLine("PerformOperationalAction", "start"))
	s, _, err := d.client.PerformOperationalAction(ctx, urns, d.creds, string(am.ActionStart), client.Options{})
	if err != nil {
		return err
	}
	d.slivers(s)
	if err := d.await(ctx, am.Ready); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	doors, err := d.logIn(ctx)
	if err == nil && d.local {
		err = d.use(ctx, doors)
	}
	if err != nil {
		return err
	}

	until := time.Now().Add(48 * time.Hour)
	d.step("Keep it for longer", d.callLine("Renew", "48h"))
	if s, _, err = d.client.Renew(ctx, urns, d.creds, until, client.Options{}); err != nil {
		return err
	}
	d.slivers(s)

	d.step("Give it back", d.callLine("Delete"))
	if s, _, err = d.client.Delete(ctx, urns, d.creds, client.Options{}); err != nil {
		return err
	}
	d.slivers(s)
	if err := expect(s, string(am.Unallocated), ""); err != nil {
		return err
	}
	return d.gone(ctx, before)
}

// ask is what a client does first: who are you, and what have you got? It
// gives the number of free nodes.
func (d *demo) ask(ctx context.Context) (free int, err error) {
	d.step("Ask what is there", d.command("call", "--user", "users/ann", "GetVersion"), d.command("call", "--user", "users/ann", "ListResources"))
	v, _, err := d.client.GetVersion(ctx)
	if err != nil {
		return 0, err
	}
	d.say("%s speaks version %d.", v.URN, v.API)
	ad, _, err := d.client.ListResources(ctx, d.creds, client.Options{})
	if err != nil {
		return 0, err
	}
	all, free, err := countNodes(ad)
	if err != nil {
		return 0, err
	}
	d.say("It offers %s, %d of them free.", display.Count(all, "node"), free)
	part, err := excerpt(ad, "node")
	if err != nil {
		return 0, err
	}
	d.document("the first node of the advertisement", part)
	return free, nil
}

// await asks for the status until every sliver is in state.
func (d *demo) await(ctx context.Context, state am.OperationalState) error {
	d.say("Now the provider works; Status is asked until it is done:")
	last := ""
	for {
		a, _, err := d.client.Status(ctx, []string{d.slice}, d.creds, client.Options{})
		if err != nil {
			return err
		}
		if now := states(a.Slivers); now != last {
			d.tick("%s", now)
			last = now
		}
		switch err := expect(a.Slivers, string(am.Provisioned), string(state)); {
		case err == nil:
			return nil
		case failed(a.Slivers):
			return err
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waiting for %s, last seen %s: %w", state, last, err)
		}
	}
}

// look shows what became of the steps that the request asks for, and of its link.
func (d *demo) look(ctx context.Context) error {
	d.step("See what was installed, and how the link is made", d.callLine("Status"))
	a, _, err := d.client.Status(ctx, []string{d.slice}, d.creds, client.Options{})
	if err != nil {
		return err
	}
	d.told(a.Slivers)
	for _, x := range a.Slivers {
		if x.Error != "" {
			return fmt.Errorf("%s is ready, but: %s", x.ClientID, x.Error)
		}
	}
	return nil
}

// logIn shows the doors of the nodes; nobody is behind those of simulated ones.
func (d *demo) logIn(ctx context.Context) ([]login, error) {
	const file = "manifest.xml"
	d.step("See how to log in", append([]string{d.callLine("-o", file, "Describe")}, d.drawLines(file)...)...)
	a, _, err := d.client.Describe(ctx, []string{d.slice}, d.creds, client.Options{})
	if err != nil {
		return nil, err
	}
	part, err := excerpt(a.RSpec, "node")
	if err != nil {
		return nil, err
	}
	d.document("the first node of the manifest", part)
	if err := d.draw(file, a.RSpec); err != nil {
		return nil, err
	}
	doors, err := logins(a.RSpec)
	if err != nil {
		return nil, err
	}
	if len(doors) != len(a.Slivers) {
		return nil, fmt.Errorf("%d nodes are ready, but the manifest has logins for %d", len(a.Slivers), len(doors))
	}
	for _, l := range doors {
		d.say("%s: %s", l.node, display.ShellLine([]string{"ssh", "-i", "users/ann/id_ed25519", "-p", l.port, l.user + "@" + l.host}))
	}
	if !d.local {
		d.say("(These nodes are simulated: there is nobody to answer.)")
	}
	return doors, nil
}

// gone waits until the slice is unknown and its nodes are free again.
func (d *demo) gone(ctx context.Context, before int) error {
	d.step("See that nothing is left", d.callLine("Status"), d.command("call", "--user", "users/ann", "ListResources"))
	_, reply, err := d.client.Status(ctx, []string{d.slice}, d.creds, client.Options{})
	if reply.Code != am.SearchFailed {
		return errors.Join(fmt.Errorf("the empty slice has the status %s, not %s", reply.Code, am.SearchFailed), err)
	}
	d.say("Status: %s (%d): %s", reply.Code, int(reply.Code), reply.Output)
	for {
		ad, _, err := d.client.ListResources(ctx, d.creds, client.Options{})
		if err != nil {
			return err
		}
		_, free, err := countNodes(ad)
		if err != nil {
			return err
		}
		if free == before {
			d.tick("%s free, as before.", display.Count(free, "node"))
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%d nodes are free, not %d as before: %w", free, before, err)
		}
	}
}

// drawLines are the commands that draw a file.
func (d *demo) drawLines(file string) []string {
	return []string{d.command("draw", file), d.command("draw", "--svg", pictureName(file), file)}
}

func pictureName(file string) string { return strings.TrimSuffix(file, ".xml") + ".svg" }

// draw writes a document to a file of the site, shows it in the terminal, and
// makes a picture of it.
func (d *demo) draw(file, text string) error {
	p, err := draw.Read([]byte(text), drawLimits)
	if err != nil {
		return err
	}
	var lines strings.Builder
	if err := draw.Text(&lines, p, draw.TextOptions{}); err != nil {
		return err
	}
	d.say("%s", strings.TrimRight(lines.String(), "\n"))
	var picture bytes.Buffer
	if err := draw.SVG(&picture, p); err != nil {
		return err
	}
	path := filepath.Join(d.dir, pictureName(file))
	d.say("The picture: %s%s", path, d.until)
	return errors.Join(site.ReplaceFile(filepath.Join(d.dir, file), []byte(text), 0o644), site.ReplaceFile(path, picture.Bytes(), 0o644))
}

// callLine is the command to do a step by hand.
func (d *demo) callLine(args ...string) string {
	return d.command(append([]string{"call", "--user", "users/ann", "--slice", "demo"}, args...)...)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// expect wants every sliver in the states; an empty state is any.
func expect(slivers []client.Sliver, allocation, operational string) error {
	if len(slivers) != demoNodes {
		return fmt.Errorf("the slice has %d slivers, not %d", len(slivers), demoNodes)
	}
	for _, s := range slivers {
		if s.Allocation != allocation || operational != "" && s.Operational != operational {
			return fmt.Errorf("sliver %s is %s and %s: %s", s.URN, s.Allocation, s.Operational, s.Error)
		}
	}
	return nil
}

func failed(slivers []client.Sliver) bool {
	for _, s := range slivers {
		if s.Operational == string(am.Failed) {
			return true
		}
	}
	return false
}
