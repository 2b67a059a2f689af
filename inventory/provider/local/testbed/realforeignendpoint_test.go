package testbed

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
)

// hostAddress returns an address of this host that is not loopback.
func hostAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this host has no address but loopback")
	return netip.Addr{}
}

// TestRealForeignEndpoint gives a node of one testbed an endpoint at the gateway of another, like
// a node of another provider.
func TestRealForeignEndpoint(t *testing.T) {
	one, two := newSite(t, "testbed-r6", 42600), newSite(t, "testbed-r7", 42650)
	name := nodeName(6)
	one.set(map[string]provider.Resource{name: one.newNode("n", "alice")})
	is := one.awaitSettled(name)[name]
	_, port, err := net.SplitHostPort(is.Login[0])
	if err != nil {
		t.Fatal(err)
	}
	own := hostAddress(t)
	put := local.EndpointsInput{Provider: "other", Set: []local.EndpointRequest{{
		Name: name, Address: net.JoinHostPort(own.String(), port), Hostname: "n", Users: []string{`{"login":"alice","keys":["` + one.public + `"]}`},
	}}}
	var out local.EndpointsOutput
	two.call(local.ActionEndpoints, put, &out)
	if len(out.Endpoints) != 1 || !strings.Contains(out.Endpoints[0].Error, "may not forward to") {
		t.Errorf("to this host, without forward_to: %+v", out)
	}
	two.options.Settings.ForwardTo = []netip.Prefix{netip.PrefixFrom(own, own.BitLen())}
	two.up()
	out = local.EndpointsOutput{}
	two.call(local.ActionEndpoints, put, &out)
	if len(out.Endpoints) != 1 || out.Endpoints[0].Error != "" || out.Endpoints[0].Login[0] == is.Login[0] || !strings.HasPrefix(out.Endpoints[0].Proxy, "gateway@127.0.0.1:") {
		t.Fatalf("%+v", out)
	}
	is.Login = out.Endpoints[0].Login
	if got := one.mustSSH(is, "alice", "hostname"); got != "n" {
		t.Errorf("the endpoint leads to %q", got)
	}
	two.call(local.ActionEndpoints, local.EndpointsInput{Provider: "other", Remove: []string{name}}, &out)
	if _, err := one.ssh(is, "alice", "true"); err == nil {
		t.Error("the endpoint is still open")
	}
}
