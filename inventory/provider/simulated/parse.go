package simulated

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

const shown = 5 // mistakes in an error

type parser struct {
	yamlfile.Reader
	settings
}

// parseSettings reads the settings in text. Missing keys have their defaults. The error is one line with the first
// mistakes, each beginning with FILE:LINE.
func parseSettings(text []byte, file string) (settings, error) {
	p := &parser{yamlfile.Reader{File: file}, defaults()}
	if doc := p.Document(text); doc != nil && !yamlfile.IsNull(doc.Content[0]) {
		p.top(doc.Content[0])
	}
	wrong, ok := errors.AsType[*yamlfile.Error](p.Err())
	if !ok {
		return p.settings, nil
	}
	var all []string
	for _, problem := range wrong.Problems[:min(len(wrong.Problems), shown)] {
		all = append(all, problem.String())
	}
	if more := len(wrong.Problems) - shown; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return p.settings, errors.New(strings.Join(all, "; "))
}

// top reads the keys of the file. It ignores the key "provider", which holds the metadata.
func (p *parser) top(n *yaml.Node) {
	keys := []string{"domain", "timing", "jitter", "seed", "slow_factor", "lose_after", "components", "chance", "provider"}
	p.Fields(n, "the file", keys, func(key string, n *yaml.Node) {
		switch key {
		case "domain":
			p.Domain = p.Text(n, key)
		case "timing":
			p.fields(n, "timing", stringsOf(operations), func(op string, n *yaml.Node) {
				p.Timing[operation(op)] = p.time(n, op)
			})
		case "jitter":
			p.Jitter = p.number(n, key, 0, 1)
		case "seed":
			if seed, err := strconv.ParseUint(n.Value, 10, 64); n.Kind != yaml.ScalarNode || err != nil {
				p.Wrong(n, "seed is %q and must be a whole number of at least 0", yamlfile.Value(n))
			} else {
				p.Seed = seed
			}
		case "slow_factor":
			p.SlowFactor = p.number(n, key, 1, 1e6)
		case "lose_after":
			p.LoseAfter = p.time(n, key)
		case "components":
			for _, item := range p.Items(n, key) {
				p.component(item)
			}
		case "chance":
			p.chance(n)
		}
	})
}

// fields is Fields that accepts a missing value.
func (p *parser) fields(n *yaml.Node, label string, keys []string, f func(key string, n *yaml.Node)) {
	if !yamlfile.IsNull(n) {
		p.Fields(n, label, keys, f)
	}
}

// component reads an entry of components, and adds it unless it has a mistake.
func (p *parser) component(item *yaml.Node) {
	var c component
	before := p.Mistakes()
	p.Fields(item, "a component", []string{"name", "behaviour", "on", "times", "kind"}, func(key string, n *yaml.Node) {
		switch key {
		case "name":
			c.Name = p.Text(n, key)
		case "behaviour":
			c.Behaviour = choose(p, n, key, behaviours)
		case "on":
			for _, n := range p.Items(n, key) {
				c.On = append(c.On, choose(p, n, "operation", occasions))
			}
		case "times":
			times, err := strconv.ParseUint(n.Value, 10, 31)
			if n.Kind != yaml.ScalarNode || err != nil {
				p.Wrong(n, "times is %q and must be a whole number; 0 means always", yamlfile.Value(n))
			}
			c.Times = int(times)
		case "kind":
			c.Kind = choose(p, n, key, kinds)
		}
	})
	switch {
	case p.Mistakes() > before:
	case c.Name == "":
		p.Wrong(item, "a component has no name; add one, such as name: pc3")
	case c.Behaviour == normal:
		p.Wrong(item, "component %s has no behaviour; add one of %s", c.Name, strings.Join(stringsOf(behaviours), ", "))
	case c.Times > 0 && slices.Contains(c.On, opProbe):
		p.Wrong(item, "component %s has times and probe, but times does not count dry runs, because they change nothing; drop times, or write a separate entry for probe", c.Name)
	case c.Behaviour != fail && c.Behaviour != slow && (slices.Contains(c.On, opInstall) || slices.Contains(c.On, opExecute)):
		p.Wrong(item, "component %s has the behaviour %s, but install and execute allow only fail and slow; drop these operations, or write a separate entry for them", c.Name, c.Behaviour)
	case c.Kind != "" && c.Behaviour != refuse:
		p.Wrong(item, "component %s has a kind, but its behaviour is %s, and only refuse has a kind; drop the kind or change the behaviour", c.Name, c.Behaviour)
	default:
		p.Components = append(p.Components, c)
	}
}

// chance reads the chances of the behaviours, whose sum must not exceed 1.
func (p *parser) chance(n *yaml.Node) {
	sum, before := 0.0, p.Mistakes()
	p.Chance = map[behaviour]float64{}
	p.fields(n, "chance", stringsOf(behaviours), func(b string, n *yaml.Node) {
		p.Chance[behaviour(b)] = p.number(n, "the chance of "+b, 0, 1)
		sum += p.Chance[behaviour(b)]
	})
	if sum > 1 && p.Mistakes() == before {
		p.Wrong(n, "the sum of the chances is %g, which is more than 1; lower them", math.Round(sum*1000)/1000)
	}
}

// choose reads one of the allowed values. For another value it records a mistake and returns "".
func choose[T ~string](p *parser, n *yaml.Node, label string, allowed []T) T {
	if n = yamlfile.Deref(n); n.Kind == yaml.ScalarNode && slices.Contains(allowed, T(n.Value)) {
		return T(n.Value)
	}
	p.Unknown(n, label, stringsOf(allowed))
	return ""
}

// number reads a number in the range. For another value it records a mistake and returns lowest.
func (p *parser) number(n *yaml.Node, label string, lowest, highest float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(f >= lowest && f <= highest) {
		p.Wrong(n, "%s is %q and must be a number from %.0f to %.0f", label, yamlfile.Value(n), lowest, highest)
		return lowest
	}
	return f
}

// time reads a duration of at most 24 hours. For any other value it records a mistake and
// returns 0.
func (p *parser) time(n *yaml.Node, label string) duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > 24*time.Hour {
		p.Wrong(n, "%s is %q and must be a duration of at most 24h, such as 2s or 200ms", label, yamlfile.Value(n))
		return 0
	}
	return duration(d)
}

func stringsOf[T ~string](all []T) []string {
	list := make([]string, len(all))
	for i, w := range all {
		list[i] = string(w)
	}
	return list
}
