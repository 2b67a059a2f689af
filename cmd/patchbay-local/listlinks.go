package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"patchbay/inventory/local"
)

// printLinks shows the interfaces of all nodes, those of a link together.
func printLinks(out io.Writer, links []local.ListedLink) error {
	if len(links) == 0 {
		_, err := fmt.Fprintln(out, "No node has an interface for links.")
		return err
	}
	order := func(a, b local.ListedLink) int {
		return slices.Compare([]string{a.SliceURN, a.Link, a.ClientID, a.Node, a.Interface}, []string{b.SliceURN, b.Link, b.ClientID, b.Node, b.Interface})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLICE\tLINK\tNODE\tINTERFACE\tADDRESS\tMADE BY\tASKED OF WHAT LEAVES\tIN\tOUT\tDROPPED")
	for _, i := range slices.SortedStableFunc(slices.Values(links), order) {
		link := printable(i.Link)
		if i.SharedVLAN != "" {
			link += " (" + printable(i.SharedVLAN) + ")"
		}
		in, sent, dropped := "-", "-", "-"
		if c := i.Counters; c != nil {
			in, sent, dropped = traffic(c.RxPackets, c.RxBytes), traffic(c.TxPackets, c.TxBytes), fmt.Sprint(c.Dropped)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(lastPart(i.SliceURN)), link, printable(i.ClientID), i.Interface,
			dash(strings.Join(i.Addresses, ",")), dash(i.Emulator), printable(i.Asked), in, sent, dropped)
	}
	return w.Flush()
}

func traffic(packets, bytes uint64) string {
	return fmt.Sprintf("%d (%s)", packets, megabytes(int64(min(bytes, 1<<62))))
}
