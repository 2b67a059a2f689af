package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/linktest"
)

// linkResult is the result for one link. From and To are client_ids, or else ids of nodes.
type linkResult struct {
	Link    string     `json:"link"`
	From    string     `json:"from"`
	To      string     `json:"to"`
	Address netip.Addr `json:"address"`
	linktest.Result
}

func linktestCommand() *cobra.Command {
	var length time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "linktest SETTINGS FROM TO",
		Short: "Measure the links between two nodes: capacity, delay, loss",
		Long: `Measure each link that two nodes share, with ping and iperf3 of this host: the
rate of TCP in each direction, and the delay and loss of echoes, there and back.
The nodes need no program. FROM and TO are names as for "enter".`,
		Args: argumentCount(3, 3, "SETTINGS", "FROM", "TO"),
		RunE: func(c *cobra.Command, args []string) error {
			if length < time.Second || length > linktest.MaxTime {
				return fmt.Errorf("--time is not between 1s and %v", linktest.MaxTime)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			results, err := measureLinks(ctx, args[0], [2]string(args[1:]), length)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(results)
			}
			for _, r := range results {
				fmt.Fprintf(c.OutOrStdout(), "Link %s, from %s to %s (%s):\n", printable(r.Link), printable(r.From), printable(r.To), r.Address)
				if err := r.Print(c.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().DurationVar(&length, "time", 3*time.Second, "duration of each part, in whole seconds")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: rates in bit/s, times in ms, loss in per cent")
	return c
}

// measureLinks measures each link that two nodes share, from the first node to the second. It fails if they
// share no link on which the second has an address.
func measureLinks(ctx context.Context, settings string, names [2]string, length time.Duration) ([]linkResult, error) {
	var ids [2]string
	var nodes [2]linktest.Node
	for i, name := range names {
		a, err := askTestbed(ctx, settings, local.Request{Action: local.ActionNetwork, Name: name})
		if err != nil {
			return nil, err
		}
		var n local.NodeNetwork
		if err := json.Unmarshal(a.Output, &n); err != nil || len(a.Files) != 1 {
			return nil, errors.New("the testbed gave no network of the node")
		}
		defer a.Files[0].Close()
		ids[i], nodes[i] = n.Node, linktest.Node{Network: a.Files[0], Base: n.Base}
	}
	a, err := askTestbed(ctx, settings, local.Request{Action: local.ActionLinks})
	if err != nil {
		return nil, err
	}
	var links []local.ListedLink
	if err := json.Unmarshal(a.Output, &links); err != nil {
		return nil, fmt.Errorf("the testbed's answer cannot be read: %w", err)
	}
	if ids[0] == ids[1] {
		return nil, errors.New("FROM and TO are the same node")
	}
	var results []linkResult
	for _, from := range links {
		for _, to := range links {
			if from.Node != ids[0] || to.Node != ids[1] || !shareLink(from, to) || len(to.Addresses) == 0 {
				continue
			}
			address, err := netip.ParsePrefix(to.Addresses[0])
			if err != nil {
				return nil, err
			}
			r := linkResult{Link: from.Link, From: cmp.Or(from.ClientID, ids[0]), To: cmp.Or(to.ClientID, ids[1]), Address: address.Addr()}
			if r.Result, err = linktest.Measure(ctx, nodes[0], nodes[1], r.Address, length); err != nil {
				return nil, err
			}
			results = append(results, r)
		}
	}
	if results == nil {
		return nil, fmt.Errorf("%s and %s share no link with an address; patchbay-local list --links shows all", ids[0], ids[1])
	}
	return results, nil
}

func shareLink(a, b local.ListedLink) bool {
	if a.SharedVLAN != "" {
		return a.SharedVLAN == b.SharedVLAN
	}
	return a.Link != "" && a.Link == b.Link && a.SliceURN == b.SliceURN
}
