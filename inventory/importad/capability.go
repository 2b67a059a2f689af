package importad

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory"
	"patchbay/rspec/match"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// readCapabilities returns the values of the features that e lists, in their order.
func readCapabilities(e *xmltree.Element) map[string][]string {
	var all map[string][]string
	for _, c := range e.Elements() {
		if c.Space != schemas.Match || c.Local != "capability" {
			continue
		}
		value, low, high := attr(c, "value"), attr(c, "min"), attr(c, "max")
		switch {
		case value != "":
		case low == high:
			value = low
		default:
			value = low + ".." + high
		}
		if all == nil {
			all = map[string][]string{}
		}
		feature := attr(c, "feature")
		all[feature] = append(all[feature], oneLine(value))
	}
	return all
}

// capabilities are the valid features of a node, sliver type or image, as an inventory has them.
type capabilities map[string]match.Capability

func (d *draft) capabilities(all map[string][]string, ofImage bool) capabilities {
	valid := capabilities{}
	for _, feature := range slices.Sorted(maps.Keys(all)) {
		c, err := match.ParseCapability(feature, all[feature]...)
		if err != nil || len(valid) == match.MaxItems || ofImage && inventory.IsConsumable(feature) {
			d.remarks.add("invalid capabilities, left out", fmt.Sprintf("%.80q", feature), 1)
			continue
		}
		valid[feature] = c
	}
	return valid
}

// MarshalYAML writes texts as the YAML library does, and other values without quotes.
func (c capabilities) MarshalYAML() (any, error) {
	all := map[string]any{}
	for feature, offer := range c {
		var list []any
		for _, v := range offer.Values() {
			if offer.Kind == match.Text {
				list = append(list, v)
			} else {
				list = append(list, number(v))
			}
		}
		if low, high := offer.Ends(); offer.Kind == match.Size && low == high {
			list = []any{number(withUnit(low))}
		} else if offer.Kind == match.Size {
			list = []any{number(withUnit(low) + ".." + withUnit(high))}
		}
		all[feature] = list
		if len(list) == 1 {
			all[feature] = list[0]
		}
	}
	n := &yaml.Node{}
	if err := n.Encode(all); err != nil {
		return nil, err
	}
	setFlow(n)
	return n, nil
}

// withUnit returns a size with a unit, which an inventory requires.
func withUnit(size string) string {
	if size[len(size)-1] <= '9' {
		return size + "B"
	}
	return size
}

func setFlow(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, child := range n.Content {
		setFlow(child)
	}
}
