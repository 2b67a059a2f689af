package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
	"patchbay/inventory/simulated"
)

// sampleRequest is for machines and virtual ones; on shared hosts alone,
// exclusive="true" in it would shut everybody else out.
//
//go:embed request.xml
var sampleRequest []byte

// samplePolicy has no rules, but says how to write them; localPolicy has one.
//
//go:embed policy.yaml
var samplePolicy []byte

// offer is what a new site has for experimenters.
type offer struct {
	files                      []siteFile
	inventory, request, policy string // in words
	// start is how to get nodes and to serve the site in dir with the command serve.
	start func(dir, serve string) string
}

// offer makes the inventory and the provider. helper is the path of
// patchbay-local.
func (o *initOptions) offer(ctx context.Context, helper string) (offer, error) {
	if o.Provider == localName {
		return o.localOffer(ctx, helper)
	}
	return offer{
		files: []siteFile{
			{site.RequestName, sampleRequest, 0o644},
			{site.InventoryName, inventory.SimulatedText(o.Authority), 0o644},
			{site.PolicyName, samplePolicy, 0o644},
			{filepath.Join(site.ProvidersDir, "simulated.prov"), simulated.Script(helper, simulatedName), 0o755},
			{filepath.Join(site.ProvidersDir, "simulated.yaml"), simulated.SettingsFor("sim." + topAuthority(o.Authority)), 0o644},
		},
		inventory: "20 nodes, 4 shared hosts",
		policy:    "now everybody everything",
		request:   "a machine and a virtual one",
		start:     func(_, serve string) string { return "Next:\n  " + serve + "\nand in another terminal:\n" },
	}, nil
}

// localRequest asks for two containers.
const localRequest = `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">
  <node client_id="server" exclusive="false">
    <sliver_type name="container"/>
  </node>
  <node client_id="client" exclusive="false">
    <sliver_type name="container"/>
  </node>
</rspec>
`

// localOffer offers containers of this host. Their doors are at the host of the
// public URL, and listen where the server does.
func (o *initOptions) localOffer(ctx context.Context, helper string) (offer, error) {
	public := o.PublicURL
	if public == "" {
		public = site.PublicURLOf(ctx, o.Listen)
	}
	u, err := url.Parse(public)
	if err != nil {
		return offer{}, err
	}
	host := hostFacts(ctx)
	host.Outbound = o.Outbound == "yes"
	bed := local.Site{Outbound: host.Outbound, Instance: instanceName(o.Authority), PublicHost: u.Hostname(), Component: host.Name}
	if at, _, _ := net.SplitHostPort(o.Listen); net.ParseIP(at) != nil && !net.ParseIP(at).IsUnspecified() {
		bed.Listen = at
	}
	return offer{
		files: []siteFile{
			{site.RequestName, []byte(localRequest), 0o644},
			{site.InventoryName, inventory.LocalText(o.Authority, host), 0o644},
			{site.PolicyName, localPolicy(host), 0o644},
			{filepath.Join(site.ProvidersDir, localName+provider.Suffix), local.Script(helper, localName), 0o755},
			{filepath.Join(site.ProvidersDir, localName+".yaml"), local.SettingsFor(bed), 0o644},
		},
		inventory: "containers of this host, " + host.Name,
		policy:    fmt.Sprintf("now each user %d nodes and %dG of disk\n                    at one time; change the rule everybody there", host.ShareNodes(), host.Share()>>30),
		request:   "two nodes",
		start: func(dir, serve string) string {
			t := site.Testbed{Program: helper, Settings: filepath.Join(dir, site.ProvidersDir, localName+".yaml")}
			text := startAsUser
			if os.Geteuid() == 0 {
				text = startAsRoot
			}
			return fmt.Sprintf(text, display.AsRoot(helper, "doctor"), display.AsRoot(t.Command()...), serve)
		},
	}, nil
}

// localPolicy is samplePolicy with one rule in force, by which no user takes all of
// a host from the others.
func localPolicy(host inventory.Host) []byte {
	const end = "# otherwise: refuse"
	text := strings.Replace(string(samplePolicy), "\n# rules:\n", "\nrules:\n", 1)
	rule := fmt.Sprintf(everybody, host.ShareNodes(), host.Share()>>30)
	return []byte(strings.Replace(text, end, rule+end, 1))
}

const everybody = `  # In force: nobody has more than half of the places of this host, and three
  # quarters of the disk that was free (ten nodes' where that is more); a container
  # takes 4G of it. Change the numbers as you like; with no rule left, put a sign before the line rules:, too.
  - name: everybody
    nodes: {user: %d}
    disk: {user: %dG}
#
`

const startAsUser = `See whether this host can run nodes:
  %[1]s
Next, start what makes them:
  %[2]s
in another terminal:
  %[3]s
and in a third:
`

const startAsRoot = `See whether this host can run nodes:
  %[1]s
Next, start serving; as root, that starts what makes them, too:
  %[3]s
which else is started by:
  %[2]s
And in another terminal:
`

// instanceName names the testbed of a site, so that two sites on one host never
// touch, whatever they are called.
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

// topAuthority is an authority without its sub-authorities.
func topAuthority(a string) string {
	top, _, _ := strings.Cut(a, ":")
	return top
}
