package step

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// PlaybookFolder has the files that Plan puts beside a playbook.
const PlaybookFolder = ".patchbay"

// Files that Plan puts beside a playbook.
const (
	playScript    = PlaybookFolder + "/run"
	playInventory = PlaybookFolder + "/inventory.json.gz"
	playNode      = PlaybookFolder + "/node.json"
	playFilter    = PlaybookFolder + "/json_query.py"
)

//go:embed playbook/run.sh
var runScript string

//go:embed playbook/json_query.py
var jsonQuery []byte

// Host is a node in the inventory of playbooks.
type Host struct {
	ClientID string
	// Name is the node's name in the inventory: one by which other nodes reach it, and that Ansible reads
	// as a host.
	Name string
	// Group is the name of a group with the node; empty for none.
	Group string
	// Variables are texts and numbers that playbooks on all nodes can read.
	Variables map[string]any
}

// Playbooks has the files that all playbooks of a request share.
type Playbooks struct {
	inventory []byte            // in JSON, compressed
	names     map[string]string // by client_id
	// Install is the version of Ansible that nodes install first; empty for none.
	Install string
}

// Size returns the number of bytes of the inventory in a step.
func (p *Playbooks) Size() int { return len(p.inventory) }

// NewPlaybooks returns the Playbooks for hosts.
func NewPlaybooks(hosts []Host, install string) *Playbooks {
	type members map[string]struct{}
	type group struct {
		Hosts any `json:"hosts"`
	}
	p := &Playbooks{names: map[string]string{}, Install: install}
	common := commonVariables(hosts)
	variables, groups := map[string]map[string]any{}, map[string]members{}
	for _, h := range hosts {
		name := h.Name
		p.names[h.ClientID] = name
		own := maps.Clone(h.Variables)
		maps.DeleteFunc(own, func(k string, _ any) bool { _, ok := common[k]; return ok })
		variables[name] = own
		if g := Variable(h.Group); g != "" && g != "all" && g != "ungrouped" {
			if groups[g] == nil {
				groups[g] = members{}
			}
			groups[g][name] = struct{}{}
		}
	}
	children := map[string]group{}
	for name, list := range groups {
		// A host of the name of a group with others would be all of them.
		if _, exists := variables[name]; !exists || len(list) == 1 && maps.Equal(list, members{name: {}}) {
			children[name] = group{list}
		}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	// Neither can fail: these are texts and numbers, in memory.
	_ = json.NewEncoder(z).Encode(map[string]any{"all": map[string]any{"hosts": variables, "vars": common, "children": children}})
	_ = z.Close()
	p.inventory = b.Bytes()
	return p
}

// commonVariables returns the variables that are equal on all hosts.
func commonVariables(hosts []Host) map[string]any {
	if len(hosts) == 0 {
		return nil
	}
	common := maps.Clone(hosts[0].Variables)
	for _, h := range hosts[1:] {
		maps.DeleteFunc(common, func(k string, v any) bool { other, ok := h.Variables[k]; return !ok || other != v })
	}
	return common
}

// prepare makes the step s play its playbook on a node. The step's variables count before those
// of the inventory.
func (p *Playbooks) prepare(s *Step, on *Node) {
	name := p.names[on.ClientID]
	own, _ := json.Marshal(map[string]any{"all": map[string]any{"hosts": map[string]any{name: s.Environment}}}) // text only
	s.Script = playScript
	s.Files = slices.Concat(s.Files, []File{
		dataFile(playScript, fmt.Appendf(nil, "host='%s' version='%s'\n%s", name, p.Install, runScript)),
		dataFile(playInventory, p.inventory), dataFile(playNode, own), dataFile(playFilter, jsonQuery),
	})
}

func dataFile(path string, body []byte) File {
	return File{URL: "data:;base64," + base64.StdEncoding.EncodeToString(body), Path: path}
}
