package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"patchbay/inventory/local/fabric"
)

// asks tells whether the settings ask for what a check tries.
func (p *Place) asks(name string) bool {
	switch name {
	case "delay":
		return p.Emulator == fabric.Netem
	case "tunnel":
		return p.Emulator == fabric.Relay
	case "outside":
		return p.Outbound
	}
	return false
}

// instead is the remedy, and how to do without it, instead of what it is for.
func (p *Place) instead(name, remedy string) string {
	for _, aside := range [...]string{"; without it", "; it is for"} {
		remedy, _, _ = strings.Cut(remedy, aside)
	}
	if name == "outside" {
		return remedy + "; or set outbound: no"
	}
	return remedy + "; or set emulator: auto, for the settings ask for " + p.Emulator
}

func trySettings(_ context.Context, b *bench) (string, *trouble) {
	if len(b.place.Misfits) > 0 {
		return "", &trouble{"some do not go together", strings.Join(b.place.Misfits, "\n         ")}
	}
	if b.place.First == 0 {
		return "not asked for: no settings were given", nil
	}
	return "they go together, as far as can be told here; patchbay check --config compares them with the inventory", nil
}

// tools are programs that experimenters expect, in the order in which they are told.
var tools = [...]string{"ip", "ping", "traceroute", "curl", "wget", "python3", "perl", "git", "tcpdump", "iperf3", "ethtool", "tc", "sudo", "vim"}

func tryTools(context.Context, *bench) (string, *trouble) { return lacking("/usr"), nil }

// lacking says which of the tools are not below usr, which nodes share.
func lacking(usr string) string {
	var lack []string
	for _, tool := range tools {
		found := false
		for _, dir := range [...]string{"bin", "sbin", "local/bin", "local/sbin"} {
			st, err := os.Stat(filepath.Join(usr, dir, tool))
			found = found || err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
		}
		if !found {
			lack = append(lack, tool)
		}
	}
	if len(lack) == 0 {
		return "nodes of the image host have the usual programs: " + strings.Join(tools[:], ", ")
	}
	return "nodes of the image host will lack " + strings.Join(lack, ", ") + ", as this host does: what is installed here, they have"
}
