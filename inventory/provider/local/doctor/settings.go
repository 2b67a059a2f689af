package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/provider/local/fabric"
)

// requests reports whether the settings request the feature that the named check tests.
func (p *Place) requests(name string) bool {
	switch name {
	case "delay":
		return p.Emulator == fabric.Netem
	case "tunnel":
		return p.Emulator == fabric.VSwitch
	case "outside":
		return p.Outbound
	}
	return false
}

// addAlternative adds a change of the settings to the remedy, as an alternative. It
// removes the part of the remedy that is for sites that do not request the feature.
func (p *Place) addAlternative(name, remedy string) string {
	for _, aside := range [...]string{"; without it", "; it is for"} {
		remedy, _, _ = strings.Cut(remedy, aside)
	}
	if name == "outside" {
		return remedy + "; or set outbound: no"
	}
	return remedy + "; or set emulator: auto instead of " + p.Emulator
}

func trySettings(_ context.Context, b *resources) (string, *trouble) {
	if len(b.place.Conflicts) > 0 {
		return "", &trouble{"some settings conflict", strings.Join(b.place.Conflicts, "\n         ")}
	}
	if b.place.First == 0 {
		return "not tested: no settings were given", nil
	}
	return "no conflicts found; patchbay check --config compares them with the inventory", nil
}

// tools are programs that experimenters expect, with their Debian packages, in the order
// of the report. Nodes always have sudo. patchbay-local linktest needs ping and iperf3.
var tools = [...][2]string{
	{"ip", "iproute2"}, {"ping", "iputils-ping"}, {"traceroute", "traceroute"}, {"curl", "curl"}, {"wget", "wget"}, {"python3", "python3"},
	{"pip3", "python3-pip"}, {"perl", "perl"}, {"git", "git"}, {"tcpdump", "tcpdump"}, {"iperf3", "iperf3"}, {"iptables", "iptables"},
	{"ethtool", "ethtool"}, {"tc", "iproute2"}, {"sudo", "sudo"}, {"vim", "vim"},
}

func tryTools(context.Context, *resources) (string, *trouble) { return toolReport("/usr"), nil }

// toolReport returns a sentence that lists the common programs in the folder usr, which nodes share, or those
// that it lacks.
func toolReport(usr string) string {
	var all, lack, packages []string
	for _, tool := range tools {
		found := false
		for _, dir := range [...]string{"bin", "sbin", "local/bin", "local/sbin"} {
			st, err := os.Stat(filepath.Join(usr, dir, tool[0]))
			found = found || err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
		}
		if !found {
			lack = append(lack, tool[0])
			if !slices.Contains(packages, tool[1]) {
				packages = append(packages, tool[1])
			}
		}
		all = append(all, tool[0])
	}
	if len(lack) == 0 {
		return "nodes of the image host have the common programs: " + strings.Join(all, ", ")
	}
	return "nodes of the image host have what is installed here, and this host lacks " + strings.Join(lack, ", ") +
		" (nodes always have the testbed's small sudo). Before a class: apt install " + strings.Join(packages, " ")
}
