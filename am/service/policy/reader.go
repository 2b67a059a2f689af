package policy

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/inventory/nameset"
	"patchbay/schemas/yamlfile"
)

type reader struct {
	yamlfile.Reader
	site    Site
	indexes map[string]int32 // of components, by name
	named   int              // in the ranges read so far
}

// policy reads the whole file into rules.
func (r *reader) policy(text []byte, rules *Rules) {
	if len(text) == 0 {
		// Some editors empty a file before they write it. Meanwhile the old rules must stay in
		// force.
		r.Wrong(nil, "the file is empty; to have no rules, leave a comment in it")
		return
	}
	doc := r.Document(text)
	if doc == nil || yamlfile.IsNull(doc.Content[0]) {
		return
	}
	r.Fields(doc.Content[0], "the policy", []string{"rules", "otherwise"}, func(key string, n *yaml.Node) {
		switch key {
		case "rules":
			r.rules(n, rules)
		case "otherwise":
			if yamlfile.Choice(&r.Reader, n, key, "allow", "refuse") == "refuse" {
				rules.otherwise = &Rule{limits: noLimits, line: n.Line, refuse: "ask this site's operators for access"}
			}
		}
	})
}

func (r *reader) rules(n *yaml.Node, rules *Rules) {
	items := r.Items(n, "rules")
	if len(items) > maxRules {
		r.Wrong(n, "there are more than %d rules; write fewer, each for more users", maxRules)
		return
	}
	lines := make(map[string]int)
	for _, item := range items {
		item = yamlfile.Deref(item)
		x := r.rule(item, rules)
		if x.Name == "" {
			continue
		}
		if line, twice := lines[x.Name]; twice {
			r.Wrong(item, "the rule in line %d is called %q, too; refusals name rules, so give each its own name", line, x.Name)
		}
		lines[x.Name] = x.line
		rules.list = append(rules.list, x)
	}
}

var ruleKeys = []string{"name", "who", "projects", "sliver_types", "components", "nodes", "cores", "disk", "ahead", "lease", "refuse", "says", "terms"}

// rule reads one rule. It also adds to rules the remarks on its components, and the file of its terms.
func (r *reader) rule(n *yaml.Node, rules *Rules) *Rule {
	x := &Rule{file: filepath.Base(r.File), line: n.Line, limits: noLimits}
	before := r.Mistakes()
	r.Fields(n, "a rule", ruleKeys, func(key string, n *yaml.Node) {
		switch key {
		case "name":
			x.Name = r.name(n)
		case "who":
			x.who = r.patterns(n, key, parseUsers)
		case "projects":
			x.projects = r.patterns(n, key, parseProjects)
		case "sliver_types":
			x.types = r.sliverTypes(n)
		case "components":
			x.components = r.components(n, rules)
		case "nodes", "cores", disk:
			read := r.Whole
			if key == disk {
				read = r.Size
			}
			for i, c := range counted {
				if c.key == key {
					x.limits[i] = r.maxima(n, key, read)
				}
			}
		case "ahead":
			x.ahead = &aheadLimit{unlimited, unlimited}
			r.Keys(n, key, yamlfile.Into("windows", &x.ahead.windows, r.Whole), yamlfile.Into("node_hours", &x.ahead.hours, r.Whole))
		case "lease":
			x.lease = r.lease(n)
		case "refuse":
			x.refuse = r.refusal(n)
		case "says":
			x.says = r.text(n, key)
		case "terms":
			x.terms = r.terms(n, rules)
		}
	})
	if x.components != nil {
		x.noComponent = x.withHint(fmt.Sprintf("%s allows only %s", x, x.components.text))
	}
	x.noType = x.withHint(fmt.Sprintf("%s allows only %s", x, strings.Join(x.types, ", ")))
	if x.Name == "" && r.Mistakes() == before {
		r.Wrong(n, "the rule has no name; add name: and a word, which refusals mention")
	}
	return x
}

func (r *reader) patterns(n *yaml.Node, key string, parse func(string) (pattern, error)) []pattern {
	list := []pattern{}
	for _, item := range r.list(n, key) {
		p, err := parse(item.Value)
		if err != nil {
			r.Wrong(item, "%s: %v", key, err)
			continue
		}
		list = append(list, p)
	}
	return list
}

// refusal rejects words such as yes and no. An operator who writes "refuse: no" means a switch,
// but the rule would refuse all users.
func (r *reader) refusal(n *yaml.Node) string {
	switch lower(strings.TrimSpace(n.Value)) {
	case "no", "yes", "true", "false", "off", "on", "n", "y":
		r.Wrong(n, "refuse is not a switch but the text of the refusal: write the reason, such as refuse: This site is for members; to refuse nothing, drop the key")
		return ""
	}
	return r.text(n, "refuse")
}

func (r *reader) sliverTypes(n *yaml.Node) []string {
	list := []string{}
	for _, item := range r.list(n, "sliver_types") {
		if !slices.Contains(r.site.SliverTypes, item.Value) {
			r.Unknown(item, "sliver type", r.site.SliverTypes)
			continue
		}
		list = append(list, item.Value)
	}
	return list
}

// components reads names and ranges in the syntax of the inventory.
func (r *reader) components(n *yaml.Node, rules *Rules) *componentSet {
	p := &componentSet{list: []int32{}}
	var texts []string
	for _, item := range r.list(n, "components") {
		texts = append(texts, item.Value)
		names, isRange := nameset.Parse(item.Value)
		if !isRange {
			i, known := r.indexes[item.Value]
			if !known {
				r.Unknown(item, "component", r.site.Components)
				continue
			}
			p.list = append(p.list, i)
			continue
		}
		if names.Len() == 0 || names.Len() > maxNamed-r.named {
			r.Wrong(item, "%q is not a range of components, or too long; write it like pc1..pc20", item.Value)
			return p
		}
		r.named += names.Len()
		firstMissing, missing := "", 0 // the first name that no component has, and the number of such names
		for name := range names.Names() {
			if i, known := r.indexes[name]; known {
				p.list = append(p.list, i)
			} else if missing++; missing == 1 {
				firstMissing = name
			}
		}
		switch {
		case missing == names.Len():
			r.Wrong(item, "no component is in %q; the inventory has %s", item.Value, yamlfile.Few(r.site.Components))
		case missing > 0 && len(rules.remarks) < maxRemarks:
			rules.remarks = append(rules.remarks, yamlfile.Problem{File: r.File, Line: item.Line, Msg: fmt.Sprintf("the inventory has no component %q, and lacks %d of the %d in %q; correct the range, unless they will be added",
				firstMissing, missing, names.Len(), item.Value)})
		}
	}
	slices.Sort(p.list)
	p.list, p.text = slices.Compact(p.list), yamlfile.Few(texts)
	return p
}

func (r *reader) maxima(n *yaml.Node, resource string, read func(*yaml.Node, string) int64) maxima {
	m := boundless
	into := map[string]*int64{"user": &m.user, "slice": &m.slice, "project": &m.project}
	r.Fields(n, resource, []string{"user", "slice", "project"}, func(key string, n *yaml.Node) {
		*into[key] = read(n, resource+" of a "+key)
	})
	return m
}

func (r *reader) lease(n *yaml.Node) (l lease) {
	into := map[string]*time.Duration{"first": &l.first, "longest": &l.longest, "renew": &l.renew}
	r.Fields(n, "lease", []string{"first", "longest", "renew"}, func(key string, n *yaml.Node) {
		d, err := display.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || d <= 0 || d > longestSpan {
			r.Wrong(n, "%s of a lease must be a time like 30m, 2h or 3d", key)
			return
		}
		*into[key] = d
	})
	if l.longest > 0 && l.first > l.longest {
		r.Wrong(n, "the first lease, %s, is longer than the longest, %s", formatDuration(l.first), formatDuration(l.longest))
	}
	return l
}

// terms reads the terms and the list of the users who have accepted them. It adds the file of that list, and remarks on
// its lines, to rules.
func (r *reader) terms(n *yaml.Node, rules *Rules) *terms {
	t := &terms{}
	before := r.Mistakes()
	r.Fields(n, "terms", []string{"url", "accepted"}, func(key string, n *yaml.Node) {
		switch key {
		case "url":
			t.url = r.text(n, key)
			u, err := url.Parse(t.url)
			if t.url != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || !isPlain(t.url)) {
				r.Wrong(n, "url %q must be a web address without blanks, such as https://testbed.example.org/terms", t.url)
			}
		case "accepted":
			t.file = r.text(n, key)
			if t.file == "" {
				return
			}
			t.file = resolvePath(r.File, t.file)
			text, err := yamlfile.Load(t.file, maxAccepted)
			if err != nil {
				r.Wrong(n, "the list of users who have accepted the terms: %v; create it, with the URN of one user on each line", err)
				return
			}
			rules.files = append(rules.files, t.file)
			var problems []yamlfile.Problem
			t.accepted, problems = readAccepted(text, t.file)
			rules.remarks = append(rules.remarks, problems...)
		}
	})
	if (t.url == "" || t.file == "") && r.Mistakes() == before {
		r.Wrong(n, "terms needs both url, the page where users accept the terms, and accepted, the file with the users who have accepted them")
	}
	return t
}
