package create

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"patchbay/am/executable"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/simulated"
)

// sampleRequest requests a machine and a virtual machine. It does not suit a site that has only
// shared hosts, because the attribute exclusive="true" would take a whole host.
//
//go:embed request.xml
var sampleRequest []byte

// SamplePolicy is a policy file without rules that explains the syntax of rules.
//
//go:embed policy.yaml
var SamplePolicy []byte

// Offer has texts for the operator about a new site: its resources, its policy and its sample
// request.
type Offer struct {
	Inventory, Request, Policy string

	files []site.File
}

func (o *Options) offer(ctx context.Context) (Offer, error) {
	if o.Provider == Local {
		return o.localOffer(ctx)
	}
	return Offer{
		files: []site.File{
			{Name: site.RequestName, Content: sampleRequest, Mode: 0o644},
			{Name: site.InventoryName, Content: inventory.SimulatedText(o.Authority), Mode: 0o644},
			{Name: site.PolicyName, Content: SamplePolicy, Mode: 0o644},
			{Name: filepath.Join(site.ProvidersDir, "simulated.prov"), Content: simulated.Script(o.Program, Simulated), Mode: 0o755},
			{Name: filepath.Join(site.ProvidersDir, "simulated.yaml"), Content: simulated.SettingsFor("sim." + topAuthority(o.Authority)), Mode: 0o644},
		},
		Inventory: "20 nodes, 4 shared hosts, all simulated",
		Policy:    "at first every user may reserve everything",
		Request:   "a machine and a virtual one",
	}, nil
}

const localRequest = `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd">
  <node client_id="server" exclusive="false">
    <sliver_type name="container"/>
  </node>
  <node client_id="client" exclusive="false">
    <sliver_type name="container"/>
  </node>
</rspec>
`

// localOffer is for a site with a local testbed, whose nodes are containers of this host. The SSH
// endpoints of the nodes have the host name of the public URL, and the server's address.
func (o *Options) localOffer(ctx context.Context) (Offer, error) {
	public := o.PublicURL
	if public == "" {
		public = site.PublicURLOf(ctx, o.Listen)
	}
	u, err := url.Parse(public)
	if err != nil {
		return Offer{}, err
	}
	host := describeHost(ctx)
	arguments := []string{
		"init", "--name", Local, "--instance", instanceName(o.Authority), "--component", host.Name, "--public-host", u.Hostname(), fmt.Sprintf("--outbound=%t", o.Outbound),
	}
	if at, _, _ := net.SplitHostPort(o.Listen); net.ParseIP(at) != nil && !net.ParseIP(at).IsUnspecified() {
		arguments = append(arguments, "--listen", at)
	}
	script, settings, err := o.providerFiles(ctx, arguments)
	if err != nil {
		return Offer{}, err
	}
	return Offer{
		files: []site.File{
			{Name: site.RequestName, Content: []byte(localRequest), Mode: 0o644},
			{Name: site.InventoryName, Content: inventory.LocalText(o.Authority, host), Mode: 0o644},
			{Name: site.PolicyName, Content: localPolicy(host), Mode: 0o644},
			{Name: filepath.Join(site.ProvidersDir, Local+provider.Suffix), Content: script, Mode: 0o755},
			{Name: filepath.Join(site.ProvidersDir, Local+".yaml"), Content: settings, Mode: 0o644},
			{Name: filepath.Join(site.ProvidersDir, Local+inventory.FactsSuffix), Content: inventory.FactsText(inventory.Facts{Images: map[string][]string{"host": host.Features}}), Mode: 0o644},
		},
		Inventory: "containers of this host, " + host.Name,
		Policy:    fmt.Sprintf("at first each user may hold %d nodes and\n                    %dG of disk at one time; change its rule everybody", host.NodesPerUser(), host.DiskPerUser()>>30),
		Request:   "two nodes",
	}, nil
}

// providerFiles runs patchbay-local, which writes the files of its provider.
func (o *Options) providerFiles(ctx context.Context, arguments []string) (script, settings []byte, err error) {
	var out, stderr bytes.Buffer
	c := executable.Command{Path: o.Program, Args: arguments, Dir: "/", Stdout: &out, Stderr: &stderr}
	if _, err := c.Run(ctx); err != nil {
		return nil, nil, fmt.Errorf("%s init: %w: %s", o.Program, err, strings.TrimSpace(stderr.String()))
	}
	var files struct{ Script, Settings string }
	if err := json.Unmarshal(out.Bytes(), &files); err != nil {
		return nil, nil, fmt.Errorf("%s init: %w", o.Program, err)
	}
	return []byte(files.Script), []byte(files.Settings), nil
}

// localPolicy adds a rule to SamplePolicy, so that no user can take the whole host.
func localPolicy(host inventory.Host) []byte {
	const end = "# otherwise: refuse"
	text := strings.Replace(string(SamplePolicy), "\n# rules:\n", "\nrules:\n", 1)
	rule := fmt.Sprintf(hostRule, host.NodesPerUser(), host.DiskPerUser()>>30)
	return []byte(strings.Replace(text, end, rule+end, 1))
}

// hostRule formats the rule in localPolicy with the nodes and the GiB of disk for each user.
const hostRule = `  # This rule applies: each user may have at most half of the nodes of this host, and
  # three quarters of the disk that was free when this file was created (or the disk of
  # ten nodes, if that is more); a container takes 4G. Change the numbers as you like. If
  # you comment out this rule and there is no other one, comment out the line rules:, too.
  - name: everybody
    nodes: {user: %d}
    disk: {user: %dG}
#
`

// instanceName has a random part, so that two sites on one host have different names.
func instanceName(authority string) string {
	const most = 11
	label, _, _ := strings.Cut(topAuthority(authority), ".")
	label = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(label))
	label = strings.Trim(label[:min(len(label), most)], "-")
	if label == "" {
		label = "site"
	}
	var b [2]byte
	rand.Read(b[:])
	return label + "-" + hex.EncodeToString(b[:])
}

func topAuthority(a string) string {
	top, _, _ := strings.Cut(a, ":")
	return top
}
