package audit

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Place is an address or a host name, with or without a port.
type Place struct {
	Addr netip.Addr // not valid for a name
	Host string     // in lower case; "" for an address
	Port uint16     // 0 for none
}

// ParsePlace parses ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT for IPv6, HOST or HOST:PORT.
func ParsePlace(s string) (Place, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return Place{Addr: canonicalAddr(a)}, nil
	}
	host, port, err := s, "", error(nil)
	if strings.Contains(s, ":") {
		if host, port, err = net.SplitHostPort(s); err != nil {
			return Place{}, fmt.Errorf("%q is not ADDRESS or ADDRESS:PORT; an IPv6 address with a port is in brackets, [2001:db8::1]:22", s)
		}
	}
	var p Place
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Place{}, fmt.Errorf("%q has the port %s; ports are 1 to 65535", s, port)
		}
		p.Port = uint16(n)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		p.Addr = canonicalAddr(a)
		return p, nil
	}
	if host == "" || len(host) > 253 || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return Place{}, fmt.Errorf("%q is neither an address nor the name of a host", host)
	}
	p.Host = strings.ToLower(host)
	return p, nil
}

func canonicalAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func (p Place) String() string {
	host := p.Host
	if p.Addr.IsValid() {
		host = p.Addr.String()
	}
	if p.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p.Port)))
}

// match returns the addresses, port ranges and endpoints in a holds line that match the
// place. shared is true if they match only because the place has no port: other slivers may
// be at the same address.
func (p Place) match(l *Line) (as []string, shared bool) {
	for _, a := range l.Addresses {
		if p.isAt(a) {
			return []string{a}, false
		}
	}
	for _, o := range l.Outside {
		ap, last, ranged := strings.Cut(o, "-")
		if !ranged {
			if p.isAt(o) {
				as, shared = append(as, o), true
			}
			continue
		}
		first, err := netip.ParseAddrPort(ap)
		n, err2 := strconv.ParseUint(last, 10, 16)
		if err == nil && err2 == nil && p.Addr == canonicalAddr(first.Addr()) && (p.Port == 0 || p.Port >= first.Port() && uint64(p.Port) <= n) {
			as, shared = append(as, o), shared || p.Port == 0
		}
	}
	for _, d := range l.Endpoints {
		host, port, err := net.SplitHostPort(d)
		if err == nil && (p.isAt(host) || p.Host != "" && strings.EqualFold(p.Host, host)) && (p.Port == 0 || port == strconv.Itoa(int(p.Port))) {
			as, shared = append(as, d), shared || p.Port == 0
		}
	}
	return as, shared
}

func (p Place) isAt(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && p.Addr.IsValid() && canonicalAddr(a) == p.Addr
}
