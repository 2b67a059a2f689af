package rspec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// CheckPorts checks a list of open ports in the notation of RADL's outports: items of the form
// [RANGE-]PORT[:LAST][/PROTOCOL][-LOCAL[/PROTOCOL]] with commas between them. RANGE are the addresses
// that may connect, and LOCAL is the port of the node if it differs. The error quotes the wrong item.
func CheckPorts(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if wrong := checkPortItem(item); wrong != "" {
			return fmt.Errorf("%.80q %s", item, wrong)
		}
	}
	return nil
}

// checkPortItem returns "" for a correct item.
func checkPortItem(item string) (wrong string) {
	parts := strings.Split(item, "-")
	if _, err := netip.ParsePrefix(parts[0]); err == nil {
		parts = parts[1:]
	}
	if len(parts) == 0 || len(parts) > 2 {
		return "is not of the form port, port/protocol, first:last or port-local"
	}
	protocol := ""
	for _, part := range parts {
		ports, name, given := strings.Cut(part, "/")
		switch {
		case given && name != "tcp" && name != "udp" && name != "icmp":
			return "has a protocol other than tcp, udp and icmp"
		case given && protocol != "" && name != protocol:
			return "has two protocols"
		case given:
			protocol = name
		}
		first, last, isRange := strings.Cut(ports, ":")
		from, ok := portNumber(first)
		to, ok2 := from, true
		if isRange {
			to, ok2 = portNumber(last)
		}
		switch {
		case !ok || !ok2:
			return "has a port that is no number from 1 to 65535"
		case isRange && len(parts) > 1:
			return "has a range of ports and a local port"
		case from > to:
			return "has a range of ports that ends before it begins"
		}
	}
	return ""
}

func portNumber(text string) (n uint64, ok bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return n, err == nil && n > 0
}
