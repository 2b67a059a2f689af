package radl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/rspec"
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
		"net_interface.i.dns.i.name": {}, "net_interface.i.connection": {}, "net_interface.i.ip": {}, "net_interface.i.ipv6": {}, "net_interface.i.dns_name": {}, "net_interface.i.additional_dns_names": {kind: textOrList},
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
	numberedName   = regexp.MustCompile(`^dns\.[0-9]{1,4}\.`)
	isVersionText  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`).MatchString
	hasJSONSuffix  = regexp.MustCompile(`_(min|max|above|below)$`).MatchString
	maxFeatureName = 128 // bytes
)

// ruleName replaces the number in the name of a feature by i.
func ruleName(name string) string {
	if m := indexed.FindStringSubmatch(name); m != nil {
		return m[1] + ".i." + numberedName.ReplaceAllString(m[3], "dns.i.")
	}
	return name
}

// check checks each sentence, and if no mistake was found so far, what one sentence says about
// another.
func (p *parser) check() {
	d, isComplete := p.d, !p.Failed()
	if d.Description != nil {
		d.Description.Features = p.checkFeatures(d.Description.Features, nil)
	}
	for i := range d.Ansibles {
		d.Ansibles[i].Features = p.checkFeatures(d.Ansibles[i].Features, ansibleRules)
		p.warn(d.Ansibles[i].Place, "leave it out; to play recipes from a host of yours, use: patchbay export --format ansible", "ansible %.40q is not used, since each node plays its recipes itself", d.Ansibles[i].ID)
	}
	for i := range d.Networks {
		d.Networks[i].Features = p.checkFeatures(d.Networks[i].Features, networkRules)
		p.checkNetwork(&d.Networks[i])
	}
	for i := range d.Systems {
		s := &d.Systems[i]
		s.Features = p.checkFeatures(s.Features, systemRules)
		for j := range s.Soft {
			s.Soft[j].Features = p.checkFeatures(s.Soft[j].Features, systemRules)
		}
		p.checkNumbers(s)
	}
	d.Networks = checkIDs(p, "network", d.Networks, (*Block).identity)
	d.Systems = checkIDs(p, "system", d.Systems, (*Block).identity)
	d.Ansibles = checkIDs(p, "ansible", d.Ansibles, (*Block).identity)
	d.Recipes = checkIDs(p, "configure", d.Recipes, (*Recipe).identity)
	if isComplete {
		p.checkReferences()
	}
	if d.Plan != nil {
		for i := range d.Plan.Options {
			if f := &d.Plan.Options[i]; f.Name != "ansible_version" || f.Op != Equal {
				p.wrong(f.Place, "the only option is ansible_version = '…'", "contextualize has the option %.40q with %s", f.Name, f.Op)
			}
		}
		d.Plan.Options = p.checkFeatures(d.Plan.Options, optionRules)
	}
	p.checkRecipes()
}

// identity is what blocks and recipes have in common.
type identity struct {
	Place
	id          string
	isReference bool
}

func (b *Block) identity() identity  { return identity{b.Place, b.ID, b.IsReference} }
func (r *Recipe) identity() identity { return identity{r.Place, r.ID, r.IsReference} }

// checkIDs returns the list without references to what the document defines itself, and refuses
// two definitions of one id.
func checkIDs[T any](p *parser, class string, list []T, identityOf func(*T) identity) []T {
	first := map[string]identity{}
	for i := range list {
		x := identityOf(&list[i])
		was, again := first[x.id]
		if again && !was.isReference && !x.isReference {
			p.wrong(x.Place, "rename one of them", "%s %.40q is there twice; the first is in line %d", class, x.id, was.Line)
		}
		if !again || was.isReference {
			first[x.id] = x
		}
	}
	return slices.DeleteFunc(list, func(x T) bool { return first[identityOf(&x).id].Place != identityOf(&x).Place })
}

// maxSearches limits the searches for similar names, which are slow.
const maxSearches = 200

// checkUnknown warns about a feature that is similar to a known one.
func (p *parser) checkUnknown(f *Feature, rules map[string]featureRule) {
	if p.searches++; p.searches > maxSearches {
		return
	}
	if near := display.SuggestWithin(ruleName(f.Name), sorted(rules), min(2, max(1, len(f.Name)/3))); near != "" {
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
	case rule.kind == applications && applicationName(f) == "":
		return bad("add name = 'NAME'", "the application has no name")
	case rule.kind == applications:
	case v.Kind == Group:
		return bad("write = and a value", "only applications contain others")
	case isNumber && v.Kind != Number:
		return bad("write a number without quotes", "the value %.40q is not a number", v.Text)
	case isNumber:
		return p.checkNumber(f, rule.kind, bad)
	case v.Kind == Number:
		return bad("write '"+display.Cut(v.Number, 80)+v.Unit+"'", "the value must be a text in quotes")
	case v.Kind == List && rule.kind != textOrList:
		return bad("write one text", "the value must not be a list")
	case rule.kind != version && f.Op != Equal:
		return bad("write =", "a text is compared with %s", f.Op)
	case v.Kind == Text && v.Text != "":
		return checkTextValue(f, rule, bad)
	}
	return true
}

// checkTextValue checks a text that is not empty.
func checkTextValue(f *Feature, rule featureRule, bad func(remedy, format string, args ...any) bool) bool {
	text := f.Value.Text
	switch {
	case rule.kind == version && !isVersionText(text):
		return bad("write digits and dots, such as '12.04'", "%.40q is not a version", text)
	case rule.choices != nil && !slices.Contains(rule.choices, strings.ToLower(text)):
		return bad("use "+strings.Join(rule.choices, ", "), "the value is %.40q", text)
	case strings.HasSuffix(f.Name, ".new.password") && !isStrong(text):
		return bad("use more than 6 characters, with a capital letter, a digit and another character", "the new password is too weak")
	case rule.choices != nil:
		f.Value.Text = strings.ToLower(text)
	}
	return true
}

func (p *parser) checkNumber(f *Feature, kind ruleKind, bad func(remedy, format string, args ...any) bool) bool {
	unit := f.Value.Unit
	switch {
	case kind == count && (unit != "" || strings.Contains(whole(f.Value.Number), ".")):
		return bad("write a whole number without a unit", "the value is %.40s%s", f.Value.Number, unit)
	case kind == real && isSizeUnit(unit), kind == size && slices.Contains(performanceUnits, unit), f.Name == "price" && unit != "":
		return bad("use another unit", "%s is no unit of this feature", unit)
	}
	if kind == count {
		f.Value.Number = whole(f.Value.Number)
	}
	c := match.Constraint{Feature: f.Name, Op: match.Op(f.Op), Value: f.Value.Number + unit}
	if _, err := match.New([]match.Constraint{c}, nil); err != nil {
		return bad("write another value", "%v", err)
	}
	return true
}

// whole returns a number without a fraction of zeros: "2" for "2.0".
func whole(number string) string {
	if i := strings.IndexByte(number, '.'); i > 0 && i < len(number)-1 && strings.Trim(number[i+1:], "0") == "" {
		return number[:i]
	}
	return number
}

func isStrong(password string) bool {
	other := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return len(password) > 6 && strings.ContainsFunc(password, unicode.IsUpper) && strings.ContainsFunc(password, unicode.IsDigit) && strings.ContainsFunc(password, other)
}

// checkNetwork checks the ports of a network. The compiler checks the other texts.
func (p *parser) checkNetwork(b *Block) {
	if f, ok := b.find("outports"); ok && f.Value.Text != "" {
		if err := rspec.CheckPorts(f.Value.Text); err != nil {
			p.wrong(f.Place, "write ports such as 8080/tcp,9000:9100/udp,8080-80", "outports of network %.40q: %v", b.ID, err)
		}
	}
}

// checkReferences requires that the document has what its systems and networks refer to.
func (p *parser) checkReferences() {
	networks, systems, ansibles := idsOf("network", p.d.Networks), idsOf("system", p.d.Systems), idsOf("ansible", p.d.Ansibles)
	for _, b := range p.d.Systems {
		for i := range b.Features {
			f := &b.Features[i]
			if _, name, ok := numbered(f.Name, "net_interface"); ok && name == "connection" {
				p.checkReference(f.Place, networks, f.Value.Text)
			}
			if f.Name == "ansible_host" {
				p.checkReference(f.Place, ansibles, f.Value.Text)
			}
		}
	}
	for _, b := range p.d.Networks {
		if f, ok := b.find("router"); ok {
			_, system, _ := strings.Cut(f.Value.Text, ",")
			p.checkReference(f.Place, systems, strings.TrimSpace(system))
		}
	}
}

// ids are the ids of all sentences with one keyword.
type ids struct {
	keyword string
	list    []string
	has     map[string]bool
}

func idsOf(keyword string, blocks []Block) ids {
	x := ids{keyword: keyword, has: map[string]bool{}}
	for i := range blocks {
		x.list = append(x.list, blocks[i].ID)
		x.has[blocks[i].ID] = true
	}
	return x
}

// checkNumbers checks the numbers of interfaces and disks, and that each interface has a
// connection.
func (p *parser) checkNumbers(b *Block) {
	numbers := map[string]map[int]*Feature{"net_interface": {}, "disk": {}}
	isConnected := map[int]bool{}
	for i := range b.Features {
		f := &b.Features[i]
		for prefix, list := range numbers {
			n, rest, ok := numbered(f.Name, prefix)
			if ok && list[n] == nil {
				list[n] = f
			}
			if ok && rest == "connection" && f.Value.Text != "" {
				isConnected[n] = true
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
		if !isConnected[n] {
			p.wrong(f.Place, fmt.Sprintf("add net_interface.%d.connection = 'NETWORK'", n), "interface %d of system %.40q has no connection", n, b.ID)
		}
	}
}

// checkReference requires that a feature names a sentence of the document.
func (p *parser) checkReference(at Place, among ids, id string) {
	if among.has[id] || id == "" {
		return
	}
	remedy := fmt.Sprintf("add: %s %.40s (), or without the parentheses if an earlier document has it", among.keyword, id)
	if !p.IsFull() { // searching for a similar name is slow
		if near := display.Suggest(id, among.list); near != "" {
			remedy = "did you mean " + display.Cut(near, 80) + "?"
		}
	}
	p.wrong(at, remedy, "there is no %s %.40q", among.keyword, id)
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
		p.checkRecipeText(r)
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

// checkRecipeText refuses a text that cannot be written as RADL: JSON and parameters can have it.
func (p *parser) checkRecipeText(r *Recipe) {
	isEnd := func(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "@end") }
	if slices.ContainsFunc(strings.Split(r.Text, "\n"), isEnd) {
		p.wrong(r.Place, "begin the line with something else", "the recipe %.40q has a line that begins with @end", r.ID)
	}
	if !utf8.ValidString(r.Text) || strings.IndexByte(r.Text, 0) >= 0 || len(p.params.missing) == 0 && len(Parameters([]byte(r.Text))) > 0 {
		p.wrong(r.Place, "correct the values of its parameters", "the recipe %.40q has NUL, a byte that is not UTF-8, or a parameter in a value of another", r.ID)
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
	text = display.Cut(text, 80) // it may have the name of an anchor
	if r.TextLine == 0 {
		return r.Place, text
	}
	return Place{r.TextLine + line - 1, 1}, text
}
