package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec/hostname"
	"patchbay/rspec/radl"
)

// ansibleGroup is a group of an inventory for Ansible.
type ansibleGroup struct {
	Hosts    map[string]ansibleHost   `yaml:"hosts,omitempty"`
	Vars     map[string]string        `yaml:"vars,omitempty"`
	Children map[string]*ansibleGroup `yaml:"children,omitempty"`
}

type ansibleHost struct {
	Alias string `yaml:"ansible_host,omitempty"`
	// Addresses has one address of the node for each link.
	Addresses map[string]string `yaml:"addresses,omitempty"`
}

var (
	// reservedForAnsible are names with a meaning of their own.
	reservedForAnsible = map[string]bool{"all": true, "ungrouped": true}
	numberedName       = regexp.MustCompile(`^(.+)-[0-9]+$`)
)

// AnsibleInventory returns an inventory in YAML of the hosts that have a login. Ansible reaches
// them with the configuration file sshConfig for OpenSSH. The nodes web-0 and web-1 are the group
// web. From the manifest the inventory contains only IP addresses and names as in Hosts, since
// Ansible evaluates expressions in texts.
func AnsibleInventory(hosts []Host, manifest []byte, sshConfig string) ([]byte, error) {
	d, err := radl.FromManifest(manifest)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Written by patchbay. Use it with: ansible-playbook -i FILE PLAYBOOK\n")
	for _, a := range d.Ansibles {
		fmt.Fprintf(&b, "# The sentence \"ansible %s\" of the RADL document names a host that runs the playbooks.\n# This inventory connects from the host where you use it.\n", a.ID)
	}
	groups := groupsOf(hosts)
	all := &ansibleGroup{Hosts: map[string]ansibleHost{}, Children: map[string]*ansibleGroup{}, Vars: map[string]string{
		"ansible_ssh_common_args": `-F "` + sshConfig + `"`,
	}}
	for i, h := range hosts {
		name := h.inventoryName()
		if !h.Login.Exists() {
			fmt.Fprintf(&b, "# %s has no login.\n", name)
			continue
		}
		all.Hosts[name] = ansibleHost{h.Alias, addressByLink(h.Addresses)}
		group := groups[i]
		if group == "" {
			continue
		}
		if all.Children[group] == nil {
			all.Children[group] = &ansibleGroup{Hosts: map[string]ansibleHost{}}
		}
		all.Children[group].Hosts[name] = ansibleHost{}
	}
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = e.Encode(map[string]*ansibleGroup{"all": all})
	return b.Bytes(), err
}

// groupsOf returns the group of each host; "" for none. A group's name is neither that of a host, nor does it
// mean two kinds of nodes.
func groupsOf(hosts []Host) []string {
	names, kinds := map[string]bool{}, map[string]string{} // kinds by group
	for _, h := range hosts {
		names[h.inventoryName()] = true
	}
	groups := make([]string, len(hosts))
	for i, h := range hosts {
		m := numberedName.FindStringSubmatch(h.inventoryName())
		if m == nil {
			continue
		}
		group := groupName(m[1])
		if kind, known := kinds[group]; known && kind != m[1] || names[m[1]] || names[group] || reservedForAnsible[group] {
			kinds[group] = "" // no kind
			continue
		}
		kinds[group], groups[i] = m[1], group
	}
	for i, group := range groups {
		if kinds[group] == "" {
			groups[i] = ""
		}
	}
	return groups
}

// groupName returns a name that Ansible accepts without a warning.
func groupName(name string) string {
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

// addressByLink returns the first IP address of each link.
func addressByLink(list []Address) map[string]string {
	first := map[string]string{}
	for _, a := range list {
		ip, err := netip.ParseAddr(a.Address)
		if link := label(a.Link); err == nil && ip.Zone() == "" && first[link] == "" {
			first[link] = ip.String()
		}
	}
	return first
}

// inventoryName is the client_id, or else the host name.
func (h Host) inventoryName() string {
	if name := h.names[0]; hostname.IsName(name) && !reservedForAnsible[name] {
		return name
	}
	return h.names[len(h.names)-1]
}

// JSON describes a slice and its nodes for programs. Nodes without a login have no field "login".
func JSON(slice string, expires time.Time, hosts []Host) ([]byte, error) {
	type node struct {
		Name      string    `json:"name"`
		Sliver    string    `json:"sliver"`
		Component string    `json:"component,omitempty"`
		SSH       string    `json:"ssh,omitempty"`
		Login     *Login    `json:"login,omitempty"`
		Gateway   *Login    `json:"gateway,omitempty"`
		Addresses []Address `json:"addresses"`
	}
	nodes := make([]node, len(hosts))
	for i, h := range hosts {
		nodes[i] = node{Name: h.Name, Sliver: h.Sliver, Component: h.Component, Addresses: append([]Address{}, h.Addresses...)}
		if h.Login.Exists() {
			nodes[i].SSH, nodes[i].Login = h.Alias, &h.Login
		}
		if h.Gateway.Exists() {
			nodes[i].Gateway = &h.Gateway
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(struct {
		Slice   string    `json:"slice"`
		Expires time.Time `json:"expires,omitzero"`
		Nodes   []node    `json:"nodes"`
	}{slice, expires, nodes})
	return b.Bytes(), err
}

// RADL describes the nodes and links of a manifest as a RADL document.
func RADL(manifest []byte) ([]byte, error) {
	d, err := radl.FromManifest(manifest)
	if err != nil {
		return nil, err
	}
	return d.Text(), nil
}
