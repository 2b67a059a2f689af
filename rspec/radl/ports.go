package radl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Ports is one item of the feature outports: ports that others may use.
type Ports struct {
	// Source is the range of addresses that may use them.
	Source netip.Prefix
	// First and Last are the ports outside; both are equal for one port.
	First, Last int
	// Local is the port on the node if it differs; 0 if not.
	Local    int
	Protocol string // tcp, udp or icmp
}

const maxPorts = 100 // items

// ParsePorts reads the feature outports: items such as 8080/tcp, 9000:9100, 8080-80 and
// 192.0.2.0/24-22, with commas between them. An empty text has no items.
func ParsePorts(text string) (list []Ports, err error) {
	if text == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		p, err := parsePorts(item)
		if err != nil {
			return nil, fmt.Errorf("%.40q: %w", item, err)
		}
		if list = append(list, p); len(list) > maxPorts {
			return nil, fmt.Errorf("there are more than %d items", maxPorts)
		}
	}
	return list, nil
}

func parsePorts(item string) (p Ports, err error) {
	p.Source = netip.MustParsePrefix("0.0.0.0/0")
	remote := item
	if source, rest, ok := strings.Cut(item, "-"); ok && strings.Contains(source, ".") {
		if p.Source, err = netip.ParsePrefix(source); err != nil {
			return p, fmt.Errorf("%.40q is not a range of addresses", source)
		}
		remote = rest
	}
	remote, local, isMapped := strings.Cut(remote, "-")
	ports, protocol, err := protocolOf(remote)
	if err != nil {
		return p, err
	}
	p.Protocol = protocol
	first, last, isRange := strings.Cut(ports, ":")
	if p.First, err = portOf(first); err != nil {
		return p, err
	}
	if p.Last = p.First; isRange {
		if p.Last, err = portOf(last); err != nil {
			return p, err
		}
	}
	if !isMapped {
		if p.Last < p.First {
			return p, fmt.Errorf("the range ends before it begins")
		}
		return p, nil
	}
	localPort, localProtocol, err := protocolOf(local)
	switch {
	case err != nil:
		return p, err
	case isRange:
		return p, fmt.Errorf("a range cannot be mapped to another port")
	case strings.Contains(local, "/") && strings.Contains(remote, "/") && localProtocol != protocol:
		return p, fmt.Errorf("the protocols of both sides differ")
	case strings.Contains(local, "/"):
		p.Protocol = localProtocol
	}
	n, err := portOf(localPort)
	if n != p.First {
		p.Local = n
	}
	return p, err
}

func protocolOf(text string) (port, protocol string, err error) {
	port, protocol, given := strings.Cut(text, "/")
	switch {
	case !given:
		protocol = "tcp"
	case protocol != "tcp" && protocol != "udp" && protocol != "icmp":
		return "", "", fmt.Errorf("%.20q is not tcp, udp or icmp", protocol)
	}
	return port, protocol, nil
}

func portOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 || strings.TrimLeft(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.20q is not a port from 1 to 65535", text)
	}
	return n, nil
}
