package site

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// FullName is the host's name as others know it, as hostname -f tells it; ""
// when it has none but localhost.
func FullName(ctx context.Context) string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	if !strings.Contains(name, ".") {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if full, err := net.DefaultResolver.LookupCNAME(ctx, name); err == nil {
			if full = strings.TrimSuffix(full, "."); strings.HasPrefix(strings.ToLower(full), strings.ToLower(name)+".") {
				name = full
			}
		}
	}
	if IsLoopbackName(name) {
		return ""
	}
	return strings.ToLower(name)
}

// PublicURLOf is where clients find a server that listens at addr, HOST:PORT: at
// the host of addr if it is one, else at the host's full name.
func PublicURLOf(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host = FullName(ctx); host == "" {
			host = "localhost"
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

// IsLocalName tells whether a host's name means something on this host, or in
// its network, only: a loopback name, or one without a dot.
func IsLocalName(host string) bool {
	return IsLoopbackName(host) || net.ParseIP(host) == nil && !strings.Contains(host, ".")
}

// HostNames are all names and addresses by which this host may be reached; more
// are those asked for beside its own.
func HostNames(ctx context.Context, more ...string) (hosts []string, ips []net.IP) {
	add := func(s string) {
		ip := net.ParseIP(s)
		switch {
		case s == "" || ip != nil && ip.IsUnspecified():
		case ip == nil && !slices.Contains(hosts, s):
			hosts = append(hosts, s)
		case ip != nil && !slices.ContainsFunc(ips, ip.Equal):
			ips = append(ips, ip)
		}
	}
	for _, s := range more {
		add(s)
	}
	add(FullName(ctx))
	if name, err := os.Hostname(); err == nil {
		add(strings.ToLower(name))
	}
	for _, s := range []string{"localhost", "127.0.0.1", "::1"} {
		add(s)
	}
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				add(n.IP.String())
			}
		}
	}
	return hosts, ips
}
