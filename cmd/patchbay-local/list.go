package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
)

func listCommand() *cobra.Command {
	var asJSON, links bool
	c := &cobra.Command{
		Use:   "list SETTINGS",
		Short: "List the nodes and endpoints of a testbed, or its links",
		Args:  argumentCount(1, 1, "SETTINGS"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			action := local.ActionList
			if links {
				action = local.ActionLinks
			}
			a, err := askTestbed(ctx, args[0], local.Request{Action: action})
			if err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintln(c.OutOrStdout(), string(a.Output))
				return err
			}
			if links {
				return show(c.OutOrStdout(), a, printLinks)
			}
			return show(c.OutOrStdout(), a, printList)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&links, "links", false, "list links instead of nodes, with their emulators and counters")
	return c
}

func show[T any](out io.Writer, a local.Answer, write func(io.Writer, T) error) error {
	var answer T
	if err := json.Unmarshal(a.Output, &answer); err != nil {
		return fmt.Errorf("the testbed's answer cannot be read: %w", err)
	}
	return write(out, answer)
}

// askTestbed sends a request to the testbed of the settings. It returns an error in the answer as its own
// error.
func askTestbed(ctx context.Context, settings string, r local.Request) (local.Answer, error) {
	s, err := readSettings(settings)
	if err != nil {
		return local.Answer{}, err
	}
	a, err := local.Call(ctx, local.Socket(s.Instance), r)
	if errors.Is(err, local.ErrDown) {
		if path, err := filepath.Abs(settings); err == nil {
			settings = path
		}
		return a, fmt.Errorf("the testbed %s does not run; start it with: %s", s.Instance, local.UpCommand("patchbay-local", settings))
	}
	if errors.Is(err, os.ErrPermission) {
		return a, fmt.Errorf("only root and the owner of %s may call the testbed %s: run it with sudo", settings, s.Instance)
	}
	if err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func printList(out io.Writer, l local.List) error {
	fmt.Fprintf(out, "Testbed %s: %s; gateway %s\n", l.Instance, countNodes(len(l.Nodes)), l.Gateway)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(l.Nodes) > 0 {
		fmt.Fprintln(w, "\nNODE\tCLIENT ID\tSLICE\tSTATE\tPOWER\tUSERS\tLOGIN\tPID\tPROCESSES\tMEMORY\tDISK\tUSER IDS FROM")
	}
	for _, n := range l.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\n", n.Name, printable(n.ClientID), printable(lastPart(n.SliceURN)), n.State, n.Power,
			dash(strings.Join(n.Users, ",")), dash(strings.Join(n.Login, ",")), dashZero(n.PID), n.PIDs, formatMegabytes(n.Memory), formatMegabytes(n.Disk), n.Base)
	}
	if len(l.Endpoints) > 0 {
		fmt.Fprintln(w, "\nENDPOINT OF\tLEADS TO\tLOGIN")
	}
	for _, d := range l.Endpoints {
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.Name, d.Address, dash(strings.Join(d.Login, ",")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		if n.Message != "" {
			fmt.Fprintf(out, "%s: %s\n", n.Name, printable(n.Message))
		}
	}
	return nil
}

// printable returns an experimenter's text with "?" for characters that could control a
// terminal, or "-" if it is empty.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	return dash(s)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func dashZero(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func lastPart(urn string) string { return urn[strings.LastIndexByte(urn, '+')+1:] }

func formatMegabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
