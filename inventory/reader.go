package inventory

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

type reader struct{ yamlfile.Reader }

// name reads a name. It refuses blanks, so that requests can refer to the name.
func (r *reader) name(n *yaml.Node, label string) string {
	t := r.Text(n, label)
	if words := strings.Fields(t); len(words) > 1 || len(words) == 1 && words[0] != t {
		r.Wrong(yamlfile.Deref(n), "%s %q must not have blanks; write %q", label, t, strings.Join(words, "-"))
		return ""
	}
	return t
}

// names reads a list of names, or a single name as a list of one.
func (r *reader) names(n *yaml.Node, label string) []*yaml.Node {
	return slices.DeleteFunc(r.Texts(n, label), func(n *yaml.Node) bool { return r.name(n, label) == "" })
}

func (r *reader) flag(n *yaml.Node, label string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		r.Wrong(n, "%s must be true or false", label)
		return false
	}
	return n.Value == "true"
}

// maxRate is one Pbit/s in kbit/s. Sums of reservations up to maxRate never overflow.
const maxRate = 1_000_000_000_000

// rate returns a capacity in kbit/s. A number without a unit is in kbit/s. A number with k, M,
// G or T is in bits per second; the units are powers of 1000.
func (r *reader) rate(n *yaml.Node, label string) int64 {
	number, unit := n.Value, 1.0
	if i := strings.LastIndexAny(number, "0123456789") + 1; i < len(number) {
		unit = map[string]float64{"k": 1, "M": 1e3, "G": 1e6, "T": 1e9}[number[i:]]
		number = number[:i]
	}
	f, err := strconv.ParseFloat(number, 64)
	rate := math.Round(f * unit)
	if n.Kind != yaml.ScalarNode || unit == 0 || err != nil || !(rate >= 1 && rate <= maxRate) || math.Abs(rate-f*unit) > 1e-6 {
		r.Wrong(n, "%s must be a number of kbit/s, or of bits per second such as 100M, 1G or 2.5G", label)
		return 0
	}
	return int64(rate)
}
