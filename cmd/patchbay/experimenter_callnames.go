package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/inventory/suggest"
)

// targets are the slivers that the arguments name, and what stands before them;
// none of a method that takes no slivers.
func (r *callRequest) targets() (before, slivers []string) {
	params := shapes[r.api][r.method].params
	n := 0 // arguments before the slivers
	for _, letter := range params {
		if strings.ContainsRune("rta", letter) {
			n++
		}
	}
	if !strings.Contains(params, "u") || len(r.args) < n {
		return r.args, nil
	}
	return r.args[:n], r.args[n:]
}

func isURN(s string) bool { return len(s) >= 4 && strings.EqualFold(s[:4], "urn:") }

// resolve puts slivers' URNs into the place of nodes' names, as the slice's
// manifest tells them. Nothing is asked where there are no names.
func (r *callRequest) resolve(ctx context.Context, c *client.Client) error {
	before, targets := r.targets()
	i := slices.IndexFunc(targets, func(s string) bool { return !isURN(s) })
	if i < 0 {
		return nil
	}
	if r.me.sliceURN == "" {
		return fmt.Errorf("%q is no URN of a sliver; to name a node of a slice give --slice NAME, URN or FILE, too", targets[i])
	}
	describe := callRequest{api: r.api, method: "Describe", me: r.me, now: r.now}
	params, err := describe.params()
	if err != nil {
		return err
	}
	reply, err := c.Call(ctx, describe.method, params...)
	if err != nil {
		return err
	}
	if reply.Code != am.Success {
		return fmt.Errorf("cannot look up which sliver %q is: Describe: %w", targets[i], reply.Err())
	}
	nodes, err := nodesOf(readValue(reply.Value).rspec)
	if err != nil {
		return fmt.Errorf("cannot look up which sliver %q is: the manifest cannot be read: %w", targets[i], err)
	}
	r.args = slices.Clone(before)
	for _, name := range targets {
		urn := name
		if !isURN(name) {
			if urn, err = sliverOf(nodes, name); err != nil {
				return err
			}
		}
		r.args = append(r.args, urn)
	}
	return nil
}

// manifestNode is one node of a manifest, by both of its names.
type manifestNode struct {
	ClientID string `xml:"client_id,attr"`
	Sliver   string `xml:"sliver_id,attr"`
}

// nodesOf are the nodes of a manifest that have slivers.
func nodesOf(manifest string) ([]manifestNode, error) {
	if manifest == "" {
		return nil, nil // of a slice that has nothing there
	}
	var doc struct {
		Nodes []manifestNode `xml:"node"`
	}
	if err := xml.Unmarshal([]byte(manifest), &doc); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(doc.Nodes, func(n manifestNode) bool { return n.Sliver == "" }), nil
}

// sliverOf is the sliver of the one node with a name.
func sliverOf(nodes []manifestNode, name string) (string, error) {
	var found, names []string
	for _, n := range nodes {
		names = append(names, n.ClientID)
		if n.ClientID == name && !slices.Contains(found, n.Sliver) {
			found = append(found, n.Sliver)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(names) == 0 {
			return "", fmt.Errorf("there is no node %q: the slice has none here", name)
		}
		hint := "there are: " + fewOf(names)
		if near := suggest.Word(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s? There are: %s", near, fewOf(names))
		}
		return "", fmt.Errorf("the slice has no node %q here; %s", name, hint)
	}
	return "", fmt.Errorf("several nodes are called %q; give the URN of one: %s", name, fewOf(found))
}

// fewOf lists names, of which there may be many.
func fewOf(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
