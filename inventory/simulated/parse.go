package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// shown is how many mistakes one message tells.
const shown = 5

// parser walks the YAML of the settings and notes every mistake with its line.
type parser struct {
	settings
	file     string
	mistakes []mistake
}

type mistake struct {
	line int
	text string
}

// parseSettings reads the text over the defaults. The error is one line with a
// sentence for each mistake, each beginning FILE:LINE.
func parseSettings(text []byte, file string) (settings, error) {
	p := &parser{settings: defaults(), file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return p.settings, p.syntax(err)
	}
	if doc.Kind == yaml.DocumentNode && !null(doc.Content[0]) { // not empty
		p.top(doc.Content[0])
	}
	return p.settings, p.err()
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: line (\d+): `) })

// syntax is an error for what is not YAML. The line that the YAML reader tells
// is where it began to read what it could not.
func (p *parser) syntax(err error) error {
	line, text := "", strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
		line, text = " at or after line "+m[1], err.Error()[len(m[0]):]
	}
	text = strings.Join(strings.Fields(text), " ")
	return fmt.Errorf("%s: this is not YAML%s: %s; look for a wrong indentation or an open bracket or quote", p.file, line, text)
}

func (p *parser) err() error {
	if len(p.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(p.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var all []string
	for _, m := range p.mistakes[:min(len(p.mistakes), shown)] {
		all = append(all, fmt.Sprintf("%s:%d: %s", p.file, m.line, m.text))
	}
	if more := len(p.mistakes) - shown; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(all, "; "))
}

func (p *parser) wrong(n *yaml.Node, format string, args ...any) {
	p.mistakes = append(p.mistakes, mistake{n.Line, fmt.Sprintf(format, args...)})
}

func (p *parser) top(n *yaml.Node) {
	keys := []string{"domain", "timing", "jitter", "seed", "slow_factor", "lose_after", "components", "chance", "provider"}
	p.fields(n, "the settings have", "key", keys, func(key string, n *yaml.Node) {
		switch key {
		case "domain":
			p.Domain = p.text(n, key)
		case "timing":
			p.fields(n, "timing has", "operation", words(operations), func(op string, n *yaml.Node) {
				p.Timing[operation(op)] = p.time(n, op)
			})
		case "jitter":
			p.Jitter = p.number(n, key, 0, 1)
		case "seed":
			if seed, err := strconv.ParseUint(n.Value, 10, 64); n.Kind != yaml.ScalarNode || err != nil {
				p.wrong(n, "seed %q must be a whole number from 0 on", value(n))
			} else {
				p.Seed = seed
			}
		case "slow_factor":
			p.SlowFactor = p.number(n, key, 1, 1e6)
		case "lose_after":
			p.LoseAfter = p.time(n, key)
		case "components":
			for _, item := range p.items(n, key) {
				p.component(item)
			}
		case "chance":
			p.chance(n)
		}
	})
}

func (p *parser) component(item *yaml.Node) {
	var c component
	before := len(p.mistakes)
	p.fields(item, "components have", "key", []string{"name", "behaviour", "on", "times", "kind"}, func(key string, n *yaml.Node) {
		switch key {
		case "name":
			c.Name = p.text(n, key)
		case "behaviour":
			c.Behaviour = choose(p, n, key, behaviours)
		case "on":
			for _, n := range p.items(n, key) {
				c.On = append(c.On, choose(p, n, "operation", occasions))
			}
		case "times":
			times, err := strconv.ParseUint(n.Value, 10, 31)
			if n.Kind != yaml.ScalarNode || err != nil {
				p.wrong(n, "times %q must be a whole number; 0 means always", value(n))
			}
			c.Times = int(times)
		case "kind":
			c.Kind = choose(p, n, key, kinds)
		}
	})
	switch {
	case len(p.mistakes) > before:
	case c.Name == "":
		p.wrong(item, "a component has no name; add one, such as name: pc3")
	case c.Behaviour == well:
		p.wrong(item, "component %s has no behaviour; add one of %s", c.Name, listed(words(behaviours)))
	case c.Times > 0 && slices.Contains(c.On, opProbe):
		p.wrong(item, "component %s has times together with probe, and nobody counts dry runs, which change nothing; drop times, or write what it does in dry runs as a component of its own", c.Name)
	case c.Behaviour != fail && c.Behaviour != slow && (slices.Contains(c.On, opInstall) || slices.Contains(c.On, opExecute)):
		p.wrong(item, "component %s has the behaviour %s in install or execute, where there are only fail and slow; drop those operations, or write them as a component of its own", c.Name, c.Behaviour)
	case c.Kind != "" && c.Behaviour != refuse:
		p.wrong(item, "component %s has a kind, which is of refusals, and its behaviour is %s; drop one of them", c.Name, c.Behaviour)
	default:
		p.Components = append(p.Components, c)
	}
}

func (p *parser) chance(n *yaml.Node) {
	sum, before := 0.0, len(p.mistakes)
	p.Chance = map[behaviour]float64{}
	p.fields(n, "chance has", "behaviour", words(behaviours), func(b string, n *yaml.Node) {
		p.Chance[behaviour(b)] = p.number(n, "the chance of "+b, 0, 1)
		sum += p.Chance[behaviour(b)]
	})
	if sum > 1 && len(p.mistakes) == before {
		p.wrong(n, "the chances are together %g, which is more than 1; lower them", math.Round(sum*1000)/1000)
	}
}

// fields calls f for every key of a mapping that is among keys, and notes the
// others. What has none of them is said by has, and a key is called what.
func (p *parser) fields(n *yaml.Node, has, what string, keys []string, f func(key string, n *yaml.Node)) {
	if n = deref(n); null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.wrong(n, "%s must be keys and values; there are %s", strings.TrimSuffix(strings.TrimSuffix(has, " has"), " have"), listed(keys))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case !slices.Contains(keys, k.Value):
			p.wrong(k, "%s no %s %q; %s", has, what, value(k), meant(k.Value, keys))
		case seen[k.Value]:
			p.wrong(k, "%s the %s %q twice; drop one", has, what, k.Value)
		default:
			seen[k.Value] = true
			f(k.Value, deref(n.Content[i+1]))
		}
	}
}

func (p *parser) items(n *yaml.Node, what string) []*yaml.Node {
	if null(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.wrong(n, "%s must be a list: write it in brackets, or each item on a line that begins with a hyphen", what)
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node, what string) string {
	if n = deref(n); n.Kind != yaml.ScalarNode || null(n) || n.Value == "" {
		p.wrong(n, "%s is empty; write a text", what)
		return ""
	}
	return n.Value
}

func choose[T ~string](p *parser, n *yaml.Node, what string, have []T) T {
	n = deref(n)
	if n.Kind != yaml.ScalarNode || !slices.Contains(have, T(n.Value)) {
		p.wrong(n, "there is no %s %q; %s", what, value(n), meant(n.Value, words(have)))
		return ""
	}
	return T(n.Value)
}

func (p *parser) number(n *yaml.Node, what string, least, most float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(f >= least && f <= most) {
		p.wrong(n, "%s is %q and must be a number from %.0f to %.0f", what, value(n), least, most)
		return least
	}
	return f
}

func (p *parser) time(n *yaml.Node, what string) duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > 24*time.Hour {
		p.wrong(n, "%s is %q and must be a time up to 24h; write it like 2s or 200ms", what, value(n))
		return 0
	}
	return duration(d)
}

// value is a scalar as it is written, short enough to be shown.
func value(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "{…}"
	case yaml.SequenceNode:
		return "[…]"
	}
	return fmt.Sprintf("%.40s", n.Value)
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func words[T ~string](all []T) []string {
	list := make([]string, len(all))
	for i, w := range all {
		list[i] = string(w)
	}
	return list
}
