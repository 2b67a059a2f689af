package egress

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"patchbay/am/testkit/netlab"
	"patchbay/inventory/provider/local/netspace"
)

// space returns a network namespace in place of a node.
func space(t testing.TB) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ns")
	f, err := netspace.Make(path)
	must(t, err)
	err = netspace.Inside(f, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	must(t, err)
	t.Cleanup(func() {
		f.Close()
		if err := netspace.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return f
}

// options returns the options of a Router of the lab's host.
func options(t testing.TB, b *netlab.Lab, instance string) Options {
	t.Helper()
	o := Options{
		Folder: filepath.Join(t.TempDir(), "outbound"), Instance: instance, Servers: []netip.Addr{netip.MustParseAddr(netlab.Names)},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), host: b.Space(), interval: 100 * time.Millisecond,
	}
	t.Cleanup(func() {
		if err := netspace.Inside(b.Space(), func() error { return Remove(o.Folder, o.Instance) }); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(o.Folder); !os.IsNotExist(err) {
			t.Errorf("the folder is left: %v", err)
		}
	})
	return o
}

func open(t testing.TB, o Options) *Router {
	t.Helper()
	e, err := Open(o)
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

func attach(t testing.TB, e *Router, number int) *os.File {
	t.Helper()
	node := space(t)
	must(t, e.Attach(t.Context(), number, node))
	return node
}

// client returns a web client in a node, which resolves names as the node does.
func client(node *os.File) *http.Client {
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = netspace.Inside(node, func() error {
			d := net.Dialer{Timeout: 10 * time.Second, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialIn(node, network, netip.AddrPortFrom(Gateway(), domain).String())
			}}}
			c, err = d.DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 15 * time.Second}
}

// dialIn connects from a namespace.
func dialIn(space *os.File, network, address string) (c net.Conn, err error) {
	err = netspace.Inside(space, func() error {
		c, err = net.DialTimeout(network, address, 2*time.Second)
		return err
	})
	return c, err
}

func fetch(node *os.File, url string) (string, error) {
	r, err := client(node).Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return strings.TrimSpace(string(b)), err
}

// serve listens in a namespace and sends each connection a greeting.
func serve(t testing.TB, space *os.File, address string) {
	t.Helper()
	var l net.Listener
	err := netspace.Inside(space, func() (err error) {
		l, err = net.Listen("tcp4", address)
		return err
	})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}()
}

// readGreeting connects and reads the greeting of serve.
func readGreeting(space *os.File, address string) error {
	c, err := dialIn(space, "tcp4", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	b, err := io.ReadAll(c)
	if err == nil && string(b) != "hello\n" {
		err = fmt.Errorf("read %q", b)
	}
	return err
}

// must ends the test after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openInNewLab opens a Router on the host of a new lab.
func openInNewLab(t testing.TB) (*netlab.Lab, *Router) {
	t.Helper()
	b := netlab.New(t, netlab.Options{})
	return b, open(t, options(t, b, "out-t"))
}
