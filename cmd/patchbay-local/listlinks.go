package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"patchbay/inventory/provider/local"
)

func printLinks(out io.Writer, links []local.ListedLink) error {
	if len(links) == 0 {
		_, err := fmt.Fprintln(out, "No node has an interface for links.")
		return err
	}
	order := func(a, b local.ListedLink) int {
		return slices.Compare([]string{a.SliceURN, a.Link, a.ClientID, a.Node, a.Interface}, []string{b.SliceURN, b.Link, b.ClientID, b.Node, b.Interface})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLICE\tLINK\tNODE\tINTERFACE\tDEVICE\tADDRESS\tEMULATOR\tREQUESTED\tFROM NODE\tTO NODE\tDROPPED TO NODE\tLOST BY OVERLOAD")
	for _, i := range slices.SortedStableFunc(slices.Values(links), order) {
		link := printable(i.Link)
		if i.SharedVLAN != "" {
			link += " (" + printable(i.SharedVLAN) + ")"
		}
		from, to, dropped, overruns := "-", "-", "-", "-"
		if c := i.Counters; c != nil {
			from, to = formatTraffic(c.TxPackets, c.TxBytes), formatTraffic(c.RxPackets, c.RxBytes)
			dropped, overruns = formatPackets(c.Dropped), formatPackets(c.Overruns)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(lastPart(i.SliceURN)), link, printable(i.ClientID), printable(i.InterfaceID), i.Interface,
			dash(strings.Join(i.Addresses, ",")), dash(i.Emulator), dash(formatProperties(i.Properties, i.OmittedProperties)), from, to, dropped, overruns)
	}
	return w.Flush()
}

// maxShown is the maximum number of properties of an interface that a line shows, and of names
// that it shows for each property.
const maxShown = 3

// formatProperties formats the properties of frames that leave an interface. omitted is the number
// of properties that the testbed's answer left out.
func formatProperties(properties []local.ListedProperty, omitted int) string {
	var all []string
	for _, p := range properties[:min(len(properties), maxShown)] {
		var words []string
		if p.Capacity > 0 {
			words = append(words, fmt.Sprintf("%d kbit/s", p.Capacity))
		}
		if p.Latency > 0 {
			words = append(words, fmt.Sprintf("%g ms", p.Latency))
		}
		if p.PacketLoss > 0 {
			words = append(words, fmt.Sprintf("%g %% lost", p.PacketLoss))
		}
		text := strings.Join(words, ", ")
		if len(p.To) > 0 {
			text += " to " + formatNames(p.To)
		}
		all = append(all, text)
	}
	if more := len(properties) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more (--json)", more))
	}
	if omitted > 0 {
		all = append(all, fmt.Sprintf("%d more that the answer leaves out", omitted))
	}
	return strings.Join(all, "; ")
}

func formatNames(ids []string) string {
	var all []string
	for _, id := range ids[:min(len(ids), maxShown)] {
		all = append(all, printable(id))
	}
	text := strings.Join(all, ", ")
	if more := len(ids) - len(all); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func formatPackets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return fmt.Sprintf("%d packets", n)
}

func formatTraffic(n, bytes uint64) string {
	switch {
	case bytes < 1000:
		return fmt.Sprintf("%s, %d bytes", formatPackets(n), bytes)
	case bytes < 1e6:
		return fmt.Sprintf("%s, %.1f kB", formatPackets(n), float64(bytes)/1e3)
	}
	return fmt.Sprintf("%s, %.1f MB", formatPackets(n), float64(bytes)/1e6)
}
