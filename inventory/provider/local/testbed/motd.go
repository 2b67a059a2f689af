package testbed

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// motd returns the lines that users see when they log in: limits, network and commands of the node. It also
// lists the features that are missing by design.
func motd(rec record, id string, outbound bool) []string {
	l := rec.Limits
	outside := "not reachable"
	if outbound {
		outside = "reachable through eth0 (IPv4)"
	}
	name := strings.Map(func(r rune) rune { // one line for a terminal
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, cmp.Or(rec.Desired.ClientID, rec.Desired.hostname(id)))
	lines := []string{fmt.Sprintf("This is %s, a container of a Patchbay testbed.", name)}
	if rec.Desired.SliceURN != "" {
		lines = append(lines, "Slice:   "+rec.Desired.SliceURN)
	}
	return append(lines,
		fmt.Sprintf("Limits:  %.3g CPU, %d MiB memory, %d MiB disk, %d processes; nproc, free and uptime", l.CPUs, l.Memory>>20, l.Disk>>20, l.PIDs),
		"         show this node; /proc/meminfo, /proc/cpuinfo and top show the host",
		"Network: the other nodes by name (/etc/hosts); one that shares no link with this node",
		"         is reached by ssh NAME only; the outside network is "+outside,
		"Tools:   geni-get commands    information about this node and its slice",
		"         sudo                 each account has the rights of root",
		"By design there is no systemd, no mount, tun or fuse, and no reboot: restart the node from",
		"outside (geni_restart). What is on its disk stays.",
	)
}
