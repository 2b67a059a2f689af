package lxd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"patchbay/inventory/provider"
)

// instance is a container of the project.
type instance struct {
	Name        string                       `json:"name"`
	Status      string                       `json:"status"`
	Location    string                       `json:"location"` // the member; "none" without a cluster
	Description string                       `json:"description"`
	Ephemeral   bool                         `json:"ephemeral"`
	Profiles    []string                     `json:"profiles"`
	Config      map[string]string            `json:"config"`
	Devices     map[string]map[string]string `json:"devices"`
}

// Statuses of an instance.
const (
	statusRunning = "Running"
	statusStopped = "Stopped"
	statusError   = "Error" // its member does not answer
)

// node returns the node that the instance is, as it was requested; nil if there is no instance, or the provider did not
// make it. While its member does not answer, the server returns no configuration of the instance; then only name,
// component and lost are set.
func (i *instance) node() *node {
	if i == nil {
		return nil
	}
	if id, ok := strings.CutPrefix(i.Name, instancePrefix); ok && isID(id) && i.Status == statusError && i.Config[keyNode] == "" {
		return &node{Name: id, Ensure: provider.Present, Component: i.Location, lost: true}
	}
	var n node
	if json.Unmarshal([]byte(i.Config[keyNode]), &n) != nil || instanceName(n.Name) != i.Name {
		return nil
	}
	return &n
}

// isMade reports whether the instance is complete. Only complete ones are started.
func (i *instance) isMade() bool {
	return i.Config[keyMade] != "" || i.Config["volatile.last_state.power"] != ""
}

// facts returns the recorded facts about the node; empty ones if there are none.
func (i *instance) facts() (f facts) {
	_ = json.Unmarshal([]byte(i.Config[keyFacts]), &f) // written by the provider
	return f
}

// instances returns all instances of the project.
func (c *client) instances(ctx context.Context) (all []instance, err error) {
	err = c.get(ctx, "instances", url.Values{"recursion": {"1"}}, &all)
	return all, err
}

// instance returns the instance with the name; nil if there is none.
func (c *client) instance(ctx context.Context, name string) (*instance, error) {
	var i instance
	err := c.get(ctx, "instances/"+name, nil, &i)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return &i, err
}

// nodesOf returns the nodes of instances, by name.
func nodesOf(all []instance) map[string]*node {
	nodes := map[string]*node{}
	for i := range all {
		if n := all[i].node(); n != nil {
			nodes[n.Name] = n
		}
	}
	return nodes
}

// member is a server of the cluster.
type member struct {
	Name    string `json:"server_name"`
	URL     string `json:"url"`
	Status  string `json:"status"` // Online, Offline, Evacuated, Blocked
	Message string `json:"message"`
}

const memberOnline = "Online"

func (m *member) isOnline() bool { return strings.EqualFold(m.Status, memberOnline) }

// host returns the address that the cluster uses for the member.
func (m *member) host() string {
	u, err := url.Parse(m.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// server describes a server.
type server struct {
	APIExtensions []string `json:"api_extensions"`
	Auth          string   `json:"auth"`
	Environment   struct {
		Clustered bool   `json:"server_clustered"`
		Name      string `json:"server_name"`
		Server    string `json:"server"`
		Version   string `json:"server_version"`
		Storage   string `json:"storage"`
		Kernel    string `json:"kernel_version"`
		Firewall  string `json:"firewall"`
	} `json:"environment"`
	Config map[string]any `json:"config"`
}

func (c *client) server(ctx context.Context) (s server, err error) {
	err = c.get(ctx, "", nil, &s)
	return s, err
}

// members returns the members of the cluster, or the one server.
func (c *client) members(ctx context.Context) (all []member, clustered bool, err error) {
	s, err := c.server(ctx)
	if err != nil {
		return nil, false, err
	}
	if !s.Environment.Clustered {
		return []member{{Name: s.Environment.Name, URL: c.base, Status: memberOnline}}, false, nil
	}
	err = c.get(ctx, "cluster/members", url.Values{"recursion": {"1"}}, &all)
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	return all, true, err
}

// network is a network of the cluster. A restricted client does not get Config.
type network struct {
	Type    string            `json:"type"`
	Managed bool              `json:"managed"`
	Config  map[string]string `json:"config"`
}

func (c *client) network(ctx context.Context, name string) (n network, err error) {
	err = c.get(ctx, "networks/"+name, nil, &n)
	return n, err
}

func (n *network) isBridge() bool { return n.Managed && n.Type == "bridge" }

// ownAddresses returns the addresses that members have in the network if it is a bridge of the cluster, with
// the lengths of the network.
func (c *client) ownAddresses(ctx context.Context, name string) (own []netip.Prefix, err error) {
	n, err := c.network(ctx, name)
	if err != nil || !n.isBridge() {
		return nil, err
	}
	var state struct {
		Addresses []struct{ Address, Netmask, Scope string }
	}
	if err := c.get(ctx, "networks/"+name+"/state", nil, &state); err != nil {
		return nil, err
	}
	for _, a := range state.Addresses {
		if p, err := netip.ParsePrefix(a.Address + "/" + a.Netmask); err == nil && a.Scope == "global" {
			own = append(own, p)
		}
	}
	return own, nil
}

// Bridges for links are networks with this prefix and a number.
const bridgePrefix = "pbl"

// bridge is a network for links.
type bridge struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// UsedBy has the paths of instances, also of those whose members do not answer.
	UsedBy []string `json:"used_by"`
}

// bridges returns the networks for links, in the order of their names. Those that not all members have,
// because setup was interrupted, are left out.
func (c *client) bridges(ctx context.Context) (all []bridge, err error) {
	err = c.get(ctx, "networks", url.Values{"recursion": {"1"}}, &all)
	all = slices.DeleteFunc(all, func(b bridge) bool {
		number, ok := strings.CutPrefix(b.Name, bridgePrefix)
		isNetwork := ok && number != "" && strings.Trim(number, "0123456789") == "" // unlike a bridge's own devices
		return !isNetwork || b.Status != "Created"
	})
	slices.SortFunc(all, func(a, b bridge) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// patch changes keys of an instance's configuration, and devices if they are not nil.
func (c *client) patch(ctx context.Context, name string, config map[string]string, devices map[string]map[string]string) error {
	body := map[string]any{}
	if config != nil {
		body["config"] = config
	}
	if devices != nil {
		body["devices"] = devices
	}
	_, err := c.do(ctx, request{method: http.MethodPatch, path: "instances/" + name, body: body})
	return err
}

// push writes a file as root into a stopped instance. The kind is file or symlink;
// the content of a symlink is its target.
func (c *client) push(ctx context.Context, name, path, kind, mode string, content []byte) error {
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: "instances/" + name + "/files", query: url.Values{"path": {path}}, body: content, header: fileHeader(kind, mode),
	})
	return err
}

func (c *client) makeFolder(ctx context.Context, name, path string) error {
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: "instances/" + name + "/files", query: url.Values{"path": {path}}, header: fileHeader("directory", "0755"),
	})
	return err
}

// fileHeader describes a file of root, for LXD and for Incus.
func fileHeader(kind, mode string) http.Header {
	h := http.Header{"Content-Type": {"application/octet-stream"}}
	for _, prefix := range []string{"X-Lxd-", "X-Incus-"} {
		for key, value := range map[string]string{"Type": kind, "Mode": mode, "Uid": "0", "Gid": "0", "Write": "overwrite"} {
			h.Set(prefix+key, value)
		}
	}
	return h
}
