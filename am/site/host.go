package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FullName returns the host's full name in lower case, like hostname -f. It returns "" if the
// only name is localhost.
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

// PublicURLOf returns the URL of a server that listens at addr (HOST:PORT). If HOST stands for
// all addresses, the URL has the host's full name.
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

// IsLocalName reports whether a name works only on this host or in its network. Such a name is a
// loopback name or has no dot.
func IsLocalName(host string) bool {
	return IsLoopbackName(host) || net.ParseIP(host) == nil && !strings.Contains(host, ".")
}

// HostNames returns all names and addresses of this host, and those in others.
func HostNames(ctx context.Context, others ...string) (hosts []string, ips []net.IP) {
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
	for _, s := range others {
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

// CheckPublicURL fails unless s is https://HOST:PORT.
func CheckPublicURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not https://HOST:PORT", s)
	}
	if u.Port() == "0" || !validPort(u.Port()) {
		return fmt.Errorf("%q has the port %s; ports are 1 to 65535", s, u.Port())
	}
	return nil
}

// CheckAddress fails unless s is HOST:PORT. HOST may be empty, and PORT may be 0.
func CheckAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not HOST:PORT or :PORT", s)
	case !validPort(port):
		return fmt.Errorf("%q has the port %s; ports are 1 to 65535, and 0 for any free one", s, port)
	}
	return nil
}

// validPort returns false only for a number that is too large, because s may also be the name of
// a service.
func validPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return !errors.Is(err, strconv.ErrRange)
}

// IsLoopbackName reports whether s is a name or address, such as localhost, by which every host
// means itself.
func IsLoopbackName(s string) bool {
	host, _, _ := strings.Cut(strings.ToLower(s), ":")
	ip := net.ParseIP(s)
	return host == "localhost" || strings.HasPrefix(host, "localhost.") || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
