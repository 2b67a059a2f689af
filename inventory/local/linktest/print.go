package linktest

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the result as a table for people.
func (r Result) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(out, "%s\tthere\tback\n", clip(r.Server))
	if t := r.TCP; t != nil {
		fmt.Fprintf(out, "TCP\t%s\t%s\n", formatRate(t.Out.Goodput), formatRate(t.In.Goodput))
		fmt.Fprintf(out, "  with headers\t%s\t%s\n", formatRate(t.Out.Line), formatRate(t.In.Line))
	}
	if d := r.Delay; d != nil {
		if d.Out != nil && d.In != nil {
			fmt.Fprintf(out, "delay\t%s\t%s\n", d.Out, d.In)
		}
		fmt.Fprintf(out, "there and back\t%s\t%d of %d echoes\n", d.Trip, d.Answered, d.Sent)
	}
	if u := r.UDP; u != nil {
		fmt.Fprintf(out, "UDP received\t%s\t%s\n", formatRate(u.Out.Rate), formatRate(u.In.Rate))
		fmt.Fprintf(out, "  lost\t%s\t%s\n", u.Out, u.In)
	}
	if b := r.Bursts; b != nil {
		fmt.Fprintf(out, "  lost in bursts\t%s\t%s\n", b.Out, b.In)
	}
	return out.Flush()
}

func formatRate(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.2f Mbit/s", v/1e6)
	}
	return fmt.Sprintf("%.1f kbit/s", v/1e3)
}

func (s Spread) String() string {
	return fmt.Sprintf("%.2f ms (least %.2f, 95%% below %.2f)", s.Median, s.Least, s.P95)
}

func (t DatagramStats) String() string {
	text := fmt.Sprintf("%.2f%% of %d", t.Loss, t.Sent)
	if t.Run > 2 {
		text += fmt.Sprintf(", %.0f in a row", t.Run)
	}
	if t.Overflow > 0 {
		text += fmt.Sprintf(", %d by the receiver", t.Overflow)
	}
	return text
}
