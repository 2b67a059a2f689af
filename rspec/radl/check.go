package radl

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/suggest"
	"patchbay/rspec/match"
)

// featureRule says what values a feature may have.
type featureRule struct {
	kind    ruleKind
	choices []string // of a text
}

type ruleKind int

const (
	anyText      ruleKind = iota
	textOrList            // a text, or a list of texts
	count                 // a whole number
	size                  // a number with a unit of bytes
	real                  // a number with a fraction, and units of performance
	version               // digits and dots in quotes, with any comparison
	applications          // contains
)

var yesNo = []string{"yes", "no"}

// The features of each sentence. i stands for the number of an interface or disk.
var (
	networkRules = map[string]featureRule{
		"outbound": {choices: yesNo}, "outports": {}, "provider_id": {}, "create": {choices: yesNo}, "cidr": {}, "sg_name": {}, "router": {}, "proxy_host": {}, "proxy_key": {},
	}
	ansibleRules = map[string]featureRule{"host": {}, "credentials.username": {}, "credentials.password": {}, "credentials.private_key": {}}
	systemRules  = map[string]featureRule{
		"cpu.count": {kind: count}, "cpu.arch": {choices: []string{"i386", "i686", "x86_64", "amd64", "arm64", "aarch64"}}, "cpu.performance": {kind: real},
		"memory.size": {kind: size}, "gpu.count": {kind: count}, "gpu.vendor": {}, "gpu.model": {}, "price": {kind: real},
		"virtual_system_type": {}, "image_type": {choices: []string{"vmdk", "qcow", "qcow2", "raw"}},
		"availability_zone": {}, "instance_type": {}, "instance_name": {}, "instance_tags": {}, "instance_id": {}, "rg_name": {},
		"nat_instance": {choices: yesNo}, "ansible_host": {},
		"net_interface.i.connection": {}, "net_interface.i.ip": {}, "net_interface.i.ipv6": {}, "net_interface.i.dns_name": {}, "net_interface.i.additional_dns_names": {kind: textOrList},
		"disk.i.image.url": {kind: textOrList}, "disk.i.image.name": {}, "disk.i.device": {}, "disk.i.mount_path": {}, "disk.i.fstype": {}, "disk.i.type": {}, "disk.i.size": {kind: size},
		"disk.i.free_size": {kind: size}, "disk.i.os.name": {choices: []string{"linux", "windows", "mac os x"}}, "disk.i.os.flavour": {}, "disk.i.os.version": {kind: version},
		"disk.i.os.credentials.username": {}, "disk.i.os.credentials.password": {}, "disk.i.os.credentials.public_key": {}, "disk.i.os.credentials.private_key": {},
		"disk.i.os.credentials.new.password": {}, "disk.i.os.credentials.new.private_key": {}, "disk.i.applications": {kind: applications},
	}
	applicationRules = map[string]featureRule{"name": {}, "version": {kind: version}, "path": {}, "preinstalled": {choices: yesNo}}
	optionRules      = map[string]featureRule{"ansible_version": {kind: version}}
)

var (
	indexed        = regexp.MustCompile(`^(net_interface|disk)\.([0-9]{1,4})\.(.+)$`)
	isVersionText  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`).MatchString
	hasJSONSuffix  = regexp.MustCompile(`_(min|max|above|below)$`).MatchString
	byteUnits      = regexp.MustCompile(`^[BKMGT]`).MatchString
	maxFeatureName = 128 // bytes
)

// ruleName replaces the number in the name of a feature by i.
func ruleName(name string) string {
	if m := indexed.FindStringSubmatch(name); m != nil {
		return m[1] + ".i." + m[3]
	}
	return name
}

// check checks each sentence, and if no mistake was found so far, what one sentence says about
// another.
func (p *parser) check() {
	d, isComplete := p.d, !p.failed()
	for i := range d.Ansibles {
		p.checkFeatures(d.Ansibles[i].Features, ansibleRules)
		p.checkAnsible(&d.Ansibles[i])
	}
	for i := range d.Networks {
		p.checkFeatures(d.Networks[i].Features, networkRules)
		p.checkNetwork(&d.Networks[i])
	}
	for i := range d.Systems {
		s := &d.Systems[i]
		p.checkFeatures(s.Features, systemRules)
		for j := range s.Soft {
			p.checkFeatures(s.Soft[j].Features, systemRules)
		}
		p.checkNumbers(s)
	}
	p.checkIDs("network", &d.Networks)
	p.checkIDs("system", &d.Systems)
	p.checkIDs("ansible", &d.Ansibles)
	p.checkRecipeIDs()
	if isComplete {
		for i := range d.Systems {
			p.checkReferences(&d.Systems[i])
		}
	}
	if d.Plan != nil {
		for i := range d.Plan.Options {
			if f := &d.Plan.Options[i]; f.Name != "ansible_version" {
				p.wrong(f.Place, "the only option is ansible_version", "contextualize has the option %.40q", f.Name)
			}
		}
		p.checkFeatures(d.Plan.Options, optionRules)
	}
	p.checkRecipes()
}

// checkIDs removes references to what the document defines itself.
func (p *parser) checkIDs(class string, list *[]Block) {
	first := map[string]*Block{}
	for i := range *list {
		b := &(*list)[i]
		was := first[b.ID]
		if was != nil && !was.IsReference && !b.IsReference {
			p.wrong(b.Place, "rename one of them", "%s %.40q is there twice; the first is in line %d", class, b.ID, was.Line)
		}
		if was == nil || was.IsReference {
			first[b.ID] = b
		}
	}
	var kept []Block
	for i := range *list {
		if b := &(*list)[i]; first[b.ID] == b {
			kept = append(kept, *b)
		}
	}
	*list = kept
}

func (p *parser) checkRecipeIDs() {
	first := map[string]Recipe{}
	for _, r := range p.d.Recipes {
		was, again := first[r.ID]
		if again && !was.IsReference && !r.IsReference {
			p.wrong(r.Place, "rename one of them", "configure %.40q is there twice; the first is in line %d", r.ID, was.Line)
		}
		if !again || was.IsReference {
			first[r.ID] = r
		}
	}
	p.d.Recipes = slices.DeleteFunc(p.d.Recipes, func(r Recipe) bool { return first[r.ID].Place != r.Place })
}

// checkFeatures checks the features of one sentence or group, each and together.
func (p *parser) checkFeatures(list []Feature, rules map[string]featureRule) {
	var constraints []match.Constraint
	var places []Place
	texts := map[string]*Feature{}
	for i := range list {
		f := &list[i]
		f.Name = strings.Replace(f.Name, ".os.flavor", ".os.flavour", 1)
		rule, known := rules[ruleName(f.Name)]
		switch {
		case len(f.Name) > maxFeatureName || hasJSONSuffix(f.Name):
			p.wrong(f.Place, fmt.Sprintf("use at most %d bytes, and no name that ends with _min, _max, _above or _below", maxFeatureName), "there is a feature %.40q", f.Name)
			continue
		case !known:
			p.checkUnknown(f, rules)
		case !p.checkValue(f, rule):
			continue
		}
		if f.Value.Kind == Text && f.Op == Equal {
			if was := texts[f.Name]; was != nil && was.Value.Text != f.Value.Text {
				p.wrong(f.Place, "leave one of them out", "%s is %.40q, but %.40q in line %d", f.Name, f.Value.Text, was.Value.Text, was.Line)
			}
			texts[f.Name] = f
		} else if c, ok := constraintOf(f); ok {
			constraints, places = append(constraints, c), append(places, f.Place)
		}
	}
	p.checkIntervals(constraints, places)
}

// constraintOf returns a number or version as a constraint.
func constraintOf(f *Feature) (match.Constraint, bool) {
	value := f.Value.Number + f.Value.Unit
	if f.Value.Kind == Text {
		value = f.Value.Text
	}
	return match.Constraint{Feature: f.Name, Op: match.Op(f.Op), Value: value}, f.Value.Kind == Number || f.Value.Kind == Text
}

// checkIntervals requires that numbers of a feature have a common value. It names the first two
// constraints that exclude each other.
func (p *parser) checkIntervals(list []match.Constraint, places []Place) {
	byFeature := map[string][]int{}
	for i, c := range list {
		byFeature[c.Feature] = append(byFeature[c.Feature], i)
	}
	for _, c := range list {
		same := byFeature[c.Feature]
		delete(byFeature, c.Feature)
		if len(same) > match.MaxConstraints {
			p.wrong(places[same[match.MaxConstraints]], "leave some out", "there are more than %d constraints on %s", match.MaxConstraints, c.Feature)
			continue
		}
		for n := 2; n <= len(same); n++ {
			var some []match.Constraint
			for _, i := range same[:n] {
				some = append(some, list[i])
			}
			_, err := match.New(some, nil)
			if conflict, ok := errors.AsType[*match.ConflictError](err); ok {
				at := slices.Index(some, conflict.First)
				p.wrong(places[same[n-1]], "change one of them", "no value satisfies both %s, in line %d, and %s", conflict.First, places[same[max(at, 0)]].Line, some[n-1])
				break
			}
		}
	}
}

// checkUnknown warns about a feature that is similar to a known one.
func (p *parser) checkUnknown(f *Feature, rules map[string]featureRule) {
	if len(p.warnings) >= maxProblems {
		return // a search for similar names takes long
	}
	var names []string
	for name := range rules {
		names = append(names, name)
	}
	slices.Sort(names)
	if near := suggest.Word(ruleName(f.Name), names); near != "" {
		if m := indexed.FindStringSubmatch(f.Name); m != nil {
			near = strings.Replace(near, ".i.", "."+m[2]+".", 1)
		}
		p.warn(f.Place, "did you mean "+near+"?", "the feature %.80q is unknown, and is only carried", f.Name)
	}
}

// checkValue checks the value of a known feature by itself.
func (p *parser) checkValue(f *Feature, rule featureRule) bool {
	bad := func(remedy, format string, args ...any) bool {
		p.wrong(f.Place, remedy, "%s", fmt.Sprintf("%.80s: ", f.Name)+fmt.Sprintf(format, args...))
		return false
	}
	v := f.Value
	isNumber := rule.kind == count || rule.kind == size || rule.kind == real
	switch {
	case rule.kind == applications && v.Kind != Group:
		return bad("write contains (name = 'NAME')", "applications need contains")
	case rule.kind == applications:
		p.checkFeatures(v.Group, applicationRules)
		if !slices.ContainsFunc(v.Group, func(g Feature) bool { return g.Name == "name" }) {
			return bad("add name = 'NAME'", "the application has no name")
		}
	case v.Kind == Group:
		return bad("write = and a value", "only applications contain others")
	case isNumber && v.Kind != Number:
		return bad("write a number without quotes", "the value %.40q is not a number", v.Text)
	case isNumber:
		return p.checkNumber(f, rule.kind, bad)
	case v.Kind == Number:
		return bad("write '"+v.Number+v.Unit+"'", "the value must be a text in quotes")
	case v.Kind == List && rule.kind != textOrList:
		return bad("write one text", "the value must not be a list")
	case rule.kind == version && !isVersionText(v.Text) && v.Text != "":
		return bad("write digits and dots, such as '12.04'", "%.40q is not a version", v.Text)
	case rule.kind != version && f.Op != Equal:
		return bad("write =", "a text is compared with %s", f.Op)
	case rule.choices != nil && v.Text != "" && !slices.Contains(rule.choices, strings.ToLower(v.Text)):
		return bad("use "+strings.Join(rule.choices, ", "), "the value is %.40q", v.Text)
	case strings.HasSuffix(f.Name, ".new.password") && !isStrong(v.Text):
		return bad("use more than 6 characters, with a capital letter, a digit and another character", "the new password is too weak")
	}
	return true
}

func (p *parser) checkNumber(f *Feature, kind ruleKind, bad func(remedy, format string, args ...any) bool) bool {
	unit := f.Value.Unit
	switch {
	case kind == count && (unit != "" || strings.Contains(f.Value.Number, ".")):
		return bad("write a whole number without a unit", "the value is %s%s", f.Value.Number, unit)
	case kind == real && byteUnits(unit), kind == size && unit != "" && !byteUnits(unit):
		return bad("use another unit", "%s is no unit of this feature", unit)
	}
	c, _ := constraintOf(f)
	if _, err := match.New([]match.Constraint{c}, nil); err != nil {
		return bad("write another value", "%v", err)
	}
	return true
}

func isStrong(password string) bool {
	other := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return len(password) > 6 && strings.ContainsFunc(password, unicode.IsUpper) && strings.ContainsFunc(password, unicode.IsDigit) && strings.ContainsFunc(password, other)
}

// checkAnsible requires what a connection needs.
func (p *parser) checkAnsible(b *Block) {
	for _, name := range []string{"host", "credentials.username"} {
		if b.text(name) == "" {
			p.wrong(b.Place, "add "+name+" = '…'", "ansible %.40q has no %s", b.ID, name)
		}
	}
	if b.text("credentials.password") == "" && b.text("credentials.private_key") == "" {
		p.wrong(b.Place, "add one of them", "ansible %.40q has neither credentials.password nor credentials.private_key", b.ID)
	}
}

// checkNetwork checks the ports of a network. The compiler checks the other texts.
func (p *parser) checkNetwork(b *Block) {
	if f, ok := b.find("outports"); ok && f.Value.Text != "" {
		if _, err := ParsePorts(f.Value.Text); err != nil {
			p.wrong(f.Place, "write ports such as 8080/tcp,9000:9100/udp,8080-80", "outports of network %.40q: %v", b.ID, err)
		}
	}
}

// checkReferences requires that the document has what a system refers to.
func (p *parser) checkReferences(b *Block) {
	for i := range b.Features {
		f := &b.Features[i]
		if _, name, ok := numbered(f.Name, "net_interface"); ok && name == "connection" {
			p.checkReference(f.Place, "network", f.Value.Text, p.d.Networks)
		}
		if f.Name == "ansible_host" {
			p.checkReference(f.Place, "ansible", f.Value.Text, p.d.Ansibles)
		}
	}
}

// checkNumbers checks the numbers of interfaces and disks, and that each interface has a
// connection.
func (p *parser) checkNumbers(b *Block) {
	numbers := map[string]map[int]*Feature{"net_interface": {}, "disk": {}}
	for i := range b.Features {
		f := &b.Features[i]
		for prefix, list := range numbers {
			if n, _, ok := numbered(f.Name, prefix); ok && list[n] == nil {
				list[n] = f
			}
		}
	}
	for prefix, list := range numbers {
		highest := -1
		for n := range list {
			highest = max(highest, n)
		}
		for n := range highest {
			if n == 0 && prefix == "disk" {
				continue // the boot disk may have no features
			}
			if list[n] == nil {
				p.wrong(list[highest].Place, "number them from 0 without gaps", "system %.40q has %s.%d, but no %s.%d", b.ID, prefix, highest, prefix, n)
				break
			}
		}
	}
	for n, f := range numbers["net_interface"] {
		if name := fmt.Sprintf("net_interface.%d.connection", n); b.text(name) == "" {
			p.wrong(f.Place, "add "+name+" = 'NETWORK'", "interface %d of system %.40q has no connection", n, b.ID)
		}
	}
}

// checkReference requires that a feature names a sentence of the document.
func (p *parser) checkReference(at Place, class, id string, list []Block) {
	var names []string
	for i := range list {
		names = append(names, list[i].ID)
	}
	if slices.Contains(names, id) || id == "" {
		return
	}
	remedy := fmt.Sprintf("add: %s %.40s (), or without the parentheses if an earlier document has it", class, id)
	if near := suggest.Word(id, names); near != "" {
		remedy = "did you mean " + near + "?"
	}
	p.wrong(at, remedy, "there is no %s %.40q", class, id)
}

// checkRecipes requires recipes to be YAML, unless they are only for cloud-init, which reads other
// texts, too.
func (p *parser) checkRecipes() {
	forAnsible, forCloudInit := map[string]bool{}, map[string]bool{}
	if p.d.Plan != nil {
		for _, i := range p.d.Plan.Items {
			if i.Tool == CloudInit {
				forCloudInit[i.Recipe] = true
			} else {
				forAnsible[i.Recipe] = true
			}
		}
	}
	for i := range p.d.Recipes {
		r := &p.d.Recipes[i]
		if forCloudInit[r.ID] && !forAnsible[r.ID] {
			continue
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(r.Text), &n); err != nil {
			at, text := yamlPlace(r, err)
			p.wrong(at, "correct the YAML there", "the recipe %.40q is not YAML: %s", r.ID, text)
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// yamlPlace returns the line of an error of the YAML library in the document, and its text.
func yamlPlace(r *Recipe, err error) (Place, string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1 // the library does not name the first line
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.TrimPrefix(err.Error(), m[0])
	}
	if r.TextLine == 0 {
		return r.Place, text
	}
	return Place{r.TextLine + line - 1, 1}, text
}
