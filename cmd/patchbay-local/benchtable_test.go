package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// benchTable holds figures by name and number of nodes.
type benchTable []figure

type figure struct {
	what, unit string
	values     map[string][]float64 // by number of nodes
}

var tableColumns = []string{"1", "20", "100", "300"}

func (t *benchTable) add(what, count, unit string, value float64) {
	i := slices.IndexFunc(*t, func(f figure) bool { return f.what == what })
	if i < 0 {
		i = len(*t)
		*t = append(*t, figure{what, unit, map[string][]float64{}})
	}
	values := (*t)[i].values
	values[count] = append(values[count], value)
}

// print writes the median of each.
func (t benchTable) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%-42s\t", "nodes")
	for _, count := range tableColumns {
		fmt.Fprintf(out, "%s\t", count)
	}
	fmt.Fprint(out, "\t\n")
	for _, f := range t {
		fmt.Fprintf(out, "%-42s\t", f.what)
		for _, count := range tableColumns {
			values := slices.Sorted(slices.Values(f.values[count]))
			switch {
			case len(values) == 0:
				fmt.Fprint(out, "\t")
			case values[len(values)/2] < 100:
				fmt.Fprintf(out, "%.1f\t", values[len(values)/2])
			default:
				fmt.Fprintf(out, "%.0f\t", values[len(values)/2])
			}
		}
		fmt.Fprintf(out, "%s\t\n", f.unit)
	}
	out.Flush()
}
