package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// Addresses of every lab.
const (
	Host   = "203.0.113.10"  // the host
	Router = "203.0.113.1"   // the host's router in the Internet
	Names  = "198.51.100.53" // the name server
	Web    = "198.51.100.80" // the address that the name server returns for every name
)

// Options of a Lab.
type Options struct {
	// Web answers the HTTP and HTTPS requests to every address of the Internet, on ports
	// 80 and 443. If it is nil, the answer to each request is its URL.
	Web http.Handler
	// Addresses are additional IPv4 addresses in the Internet.
	Addresses []string
}

// Lab is a simulated host that is connected to a simulated Internet.
type Lab struct {
	// CA is the certificate, in PEM, of the authority that signs the certificates of the
	// HTTPS server.
	CA []byte

	host, internet *place
}

// New creates a lab, and removes it when the test ends. It skips the test if the real host does
// not allow network namespaces.
func New(t testing.TB, o Options) *Lab {
	t.Helper()
	require.NetNS(t)
	b := &Lab{host: newPlace(t), internet: newPlace(t)}
	err := b.internet.do(func() error {
		peer := netlink.NewVeth(netlink.LinkAttrs{Name: "eth0"})
		peer.PeerName, peer.PeerNamespace = "eth0", netlink.NsFd(int(b.host.file.Fd()))
		if err := netlink.LinkAdd(peer); err != nil {
			return err
		}
		for _, a := range append([]string{Names, Web}, o.Addresses...) {
			if err := address("lo", a+"/32"); err != nil {
				return err
			}
		}
		return address("eth0", Router+"/24")
	})
	if err == nil {
		err = b.host.do(func() error {
			if err := address("eth0", Host+"/24"); err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(Router)})
		})
	}
	if err == nil {
		err = b.serve(t, o.Web)
	}
	for _, p := range []*place{b.host, b.internet} {
		if err == nil {
			err = p.do(awaitLink)
		}
	}
	if err != nil {
		t.Fatalf("cannot create a lab: %v", err)
	}
	return b
}

// Start calls c.Start on the host of the lab; on a nil Lab it calls c.Start on the real host.
// The caller must end the program; the removal of the lab does not end it.
func (b *Lab) Start(c *exec.Cmd) error {
	if b == nil {
		return c.Start()
	}
	return b.host.do(c.Start)
}

// Run is like c.Run, but on the host of the lab.
func (b *Lab) Run(c *exec.Cmd) error {
	if err := b.Start(c); err != nil {
		return err
	}
	return c.Wait()
}

// Do calls f on a thread in the host's network namespace, so that sockets that f creates are
// there. On a nil Lab it just calls f.
func (b *Lab) Do(f func() error) error {
	if b == nil {
		return f()
	}
	return b.host.do(f)
}

// Outside calls f on a thread in the network namespace of the Internet.
func (b *Lab) Outside(f func() error) error { return b.internet.do(f) }

// Space returns the host's network namespace.
func (b *Lab) Space() *os.File { return b.host.file }

// AddAddress adds an address to the host.
func (b *Lab) AddAddress(a netip.Prefix) error {
	return b.host.do(func() error { return address("eth0", a.String()) })
}

// place is a network namespace with a thread that stays in it until the test ends. The thread
// starts all programs of the place, because a program with Pdeathsig ends together with the
// thread that started it.
type place struct {
	file *os.File    // the namespace
	work chan func() // functions for the thread
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{work: make(chan func())}
	ready := make(chan error)
	go p.keepNamespace(ready)
	if err := <-ready; err != nil {
		t.Fatalf("cannot create a network namespace: %v", err)
	}
	t.Cleanup(func() {
		close(p.work)
		p.file.Close()
	})
	return p
}

// keepNamespace runs the functions of p.work on the thread of a new namespace. When the namespace
// exists, it sends nil to ready. If the namespace cannot be created, it sends the error.
func (p *place) keepNamespace(ready chan error) {
	runtime.LockOSThread() // never unlocked, so the thread ends with its goroutine
	if unix.Gettid() == unix.Getpid() {
		// This is the main thread, which must not be used. It is locked here, so another
		// goroutine gets another thread.
		defer runtime.UnlockOSThread()
		again := make(chan error)
		go p.keepNamespace(again)
		ready <- <-again
		return
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		p.file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	}
	if err == nil {
		err = address("lo", "127.0.0.1/8")
	}
	if err == nil {
		// A new namespace copies these settings from the real host.
		for _, k := range []string{"all", "default"} {
			_ = os.WriteFile("/proc/sys/net/ipv4/conf/"+k+"/rp_filter", []byte("0"), 0)
		}
		err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0)
	}
	ready <- err
	if err != nil {
		return
	}
	for f := range p.work {
		f()
	}
}

func (p *place) do(f func() error) error {
	done := make(chan error, 1)
	p.work <- func() { done <- f() }
	return <-done
}

// awaitLink waits until eth0 is operational. An interface drops packets for a short time after it
// is brought up.
func awaitLink() error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return errors.New("eth0 does not become operational")
}

func address(device, a string) error {
	l, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(a)
	if err != nil {
		return err
	}
	if err := netlink.AddrReplace(l, parsed); err != nil {
		return fmt.Errorf("cannot add the address %s to %s: %w", a, device, err)
	}
	return netlink.LinkSetUp(l)
}
