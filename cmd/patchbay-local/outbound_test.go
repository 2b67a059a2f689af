package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/egress"
)

// fetch returns a web client in bash, which every image has. It prints the answer's last line.
func fetch(name, path string) string {
	return fmt.Sprintf(`exec 3<>/dev/tcp/%s/80 && printf 'GET %s HTTP/1.0\r\nHost: %[1]s\r\n\r\n' >&3 && timeout 5 tail -n 1 <&3`, name, path)
}

// TestNodesReachOutsideNetwork fetches pages from nodes, also after restarts of a node and of
// "up". The packages egress and testbed test the rules.
func TestNodesReachOutsideNetwork(t *testing.T) {
	in := netlab.New(t, netlab.Options{Addresses: []string{"10.9.9.9"}})
	b := newTestSiteIn(t, in, "out-t", "outbound: yes", "dns: ["+netlab.Names+"]")
	first, second := "00000000-0000-4000-8000-0000000000f1", "00000000-0000-4000-8000-0000000000f2"
	b.node(t, first, nil)
	b.node(t, second, nil)
	fetches := func(when, node string) {
		t.Helper()
		wait.Clear(t, func() string {
			if out, err := b.ssh(t, node, fetch("www.example.org", "/"+node)); err != nil || out != "www.example.org/"+node+"\n" {
				return fmt.Sprintf("%s, %s fetched %q, %v", when, node, out, err)
			}
			return ""
		})
	}
	fetches("at first", first)
	fetches("at first", second)
	seen := map[string]bool{}
	for _, node := range []string{first, second} {
		where := getNode(t, b.provider, node).List(provider.AttrOutside)
		if len(where) != 1 || !strings.HasPrefix(where[0], netlab.Host+":") || seen[where[0]] {
			t.Errorf("%s is said to appear outside as %q", node, where)
			continue
		}
		seen[where[0]] = true
	}
	if out, err := b.ssh(t, first, "test $(geni-get control_mac) = $(cat /sys/class/net/eth0/address) && echo same"); err != nil || out != "same\n" {
		t.Errorf("geni-get control_mac is not that of eth0: %q, %v", out, err)
	}
	for what, address := range map[string]string{
		"a private network": "10.9.9.9", "the host": netlab.Host, "the other node": egress.Address(2).String(), "the host's loopback": "100.64.0.1",
	} {
		if out, err := b.ssh(t, first, "timeout 5 bash -c '</dev/tcp/"+address+"/80'"); err == nil {
			t.Errorf("%s was reached: %q", what, out)
		}
	}

	b.restart(syscall.SIGKILL)
	fetches("after a kill of up", first)
	b.set(t, second, provider.Resource{"restart_serial": "1"})
	b.await(t, second, "ready")
	fetches("after a restart of the node", second)

	b.remove(t, first)
	b.remove(t, second)
}
