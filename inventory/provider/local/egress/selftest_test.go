package egress

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local/netspace"
)

func TestSelfTest(t *testing.T) {
	require.NetNS(t)
	for range 3 { // the previous run leaves nothing behind
		must(t, SelfTest())
	}
}

func TestObstacles(t *testing.T) {
	t.Parallel()
	b, e := openInNewLab(t)
	node := attach(t, e, 1)
	drops := nftables.ChainPolicyDrop
	for _, tt := range []struct {
		family nftables.TableFamily
		table  string
		chain  string
		words  string
		remedy string
	}{
		{nftables.TableFamilyIPv4, "filter", "FORWARD", "table ip filter, chain FORWARD", "iptables -I FORWARD -i pbo-+ -j ACCEPT"},
		{nftables.TableFamilyINet, "site", "passing", "table inet site, chain passing", "nft insert rule inet site passing iifname 'pbo-*' accept"},
	} {
		table := &nftables.Table{Name: tt.table, Family: tt.family}
		chain := &nftables.Chain{Name: tt.chain, Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drops}
		change := func(f func(*nftables.Conn)) (found []Obstacle) {
			err := b.Do(func() error {
				c, err := nftables.New()
				if err != nil {
					return err
				}
				f(c)
				if err := c.Flush(); err != nil {
					return err
				}
				found = Obstacles()
				return nil
			})
			must(t, err)
			return found
		}
		found := change(func(c *nftables.Conn) {
			c.AddTable(table)
			c.AddChain(chain)
		})
		if len(found) != 1 || !strings.Contains(found[0].Message, tt.words) || !strings.Contains(found[0].Remedy, tt.remedy) {
			t.Errorf("found %q", found)
		}
		if _, err := fetch(node, "http://"+netlab.Web); err == nil {
			t.Errorf("%s is not in the way", tt.words)
		}
		found = change(func(c *nftables.Conn) { // the remedy
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, []byte(devicePrefix)), accept()...)})
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(toAny(devicePrefix), accept()...)})
		})
		if len(found) != 0 {
			t.Errorf("after the remedy: %q", found)
		}
		if _, err := fetch(node, "http://"+netlab.Web); err != nil {
			t.Errorf("after the remedy: %v", err)
		}
		change(func(c *nftables.Conn) { c.DelTable(table) })
	}
}

// A host behind NAT has no public address: only its routes show at once which of its
// devices lead outside.
func TestUplinksOfHostWithPrivateAddresses(t *testing.T) {
	require.NetNS(t)
	var spaces []*os.File
	for range 3 {
		f, err := netspace.New()
		must(t, err)
		defer f.Close()
		spaces = append(spaces, f)
	}
	host, router := spaces[0], spaces[1]
	must(t, joinSpaces(host, router, netip.MustParsePrefix("192.168.7.2/24"), netip.MustParsePrefix("192.168.7.1/24")))
	e, err := start(Options{Instance: "out-t", Number: 1, host: host, interval: time.Hour}, spaces[2])
	must(t, err)
	defer e.Close()
	if err := netspace.Inside(host, func() error {
		if !isForwarding("way0") {
			return errors.New("answers to nodes are not passed on")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
