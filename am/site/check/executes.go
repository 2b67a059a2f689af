package check

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/service/binder"
	"patchbay/am/site"
	"patchbay/rspec/step"
)

// debianPackages has programs that experimenters often use and a small host may lack.
var debianPackages = map[string]string{
	"curl": "curl", "ethtool": "ethtool", "gcc": "gcc", "git": "git", "iperf": "iperf", "iperf3": "iperf3", "iptables": "iptables", "make": "make",
	"nc": "netcat-openbsd", "nft": "nftables", "pip3": "python3-pip", "python3": "python3", "tcpdump": "tcpdump", "traceroute": "traceroute", "wget": "wget",
}

// addMissingPrograms warns of programs in executes that nodes will lack. Nodes with the
// HostImage of a provider share the folder /usr of this host, whose path is usr.
func (r *diagnosis) addMissingPrograms(b binder.Binding, providers, usr string) {
	reported := map[string]bool{}
	images := map[string]string{}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		name := n.Component.Provider
		if _, known := images[name]; !known {
			images[name] = ""
			if c, _ := site.OpenCompanion(context.Background(), providers, name); c != nil {
				images[name] = c.Settings.HostImage
			}
		}
		if n.Image == "" || n.Image != images[name] {
			continue
		}
		executes := n.Node.Services.OfKind(step.Execute)
		for j, x := range executes {
			for _, word := range strings.FieldsFunc(x.Command, func(c rune) bool { return strings.ContainsRune(" \t\n;&|()", c) }) {
				program := path.Base(word)
				if debianPackages[program] == "" || reported[program] || hasProgram(usr, program) {
					continue
				}
				reported[program] = true
				r.add(diagnostic{0, 0, false, fmt.Sprintf("node %q: its execute %d of %d uses %s, which this host lacks, and so do its nodes; on the host: apt install %s",
					n.Node.ClientID, j+1, len(executes), program, debianPackages[program])})
			}
		}
	}
}

func hasProgram(usr, name string) bool {
	return slices.ContainsFunc([]string{"bin", "sbin"}, func(dir string) bool {
		_, err := os.Stat(filepath.Join(usr, dir, name))
		return err == nil
	})
}
