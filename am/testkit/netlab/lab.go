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
	Host   = "203.0.113.10"  // of the host
	Router = "203.0.113.1"   // of the internet, next to the host
	Names  = "198.51.100.53" // of the name server
	Web    = "198.51.100.80" // which every name has
)

// Options of a Lab.
type Options struct {
	// Web answers http and https requests to every address of the internet, on
	// ports 80 and 443; nil answers each with its URL.
	Web http.Handler
	// Addresses are of the internet, beside those above.
	Addresses []string
}

// Lab is a host and an internet.
type Lab struct {
	// CA is the certificate, PEM, that signs those of the https server.
	CA []byte

	host, internet *place
}

// New makes a lab, which goes with the test.
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
			err = p.do(carries)
		}
	}
	if err != nil {
		t.Fatalf("cannot make a lab: %v", err)
	}
	return b
}

// Start starts a program on the host; it is c.Start, and on a nil Lab nothing
// else. The program outlives the lab unless it is ended.
func (b *Lab) Start(c *exec.Cmd) error {
	if b == nil {
		return c.Start()
	}
	return b.host.do(c.Start)
}

// Run is c.Run on the host.
func (b *Lab) Run(c *exec.Cmd) error {
	if err := b.Start(c); err != nil {
		return err
	}
	return c.Wait()
}

// Do calls f on a thread that is on the host: sockets that f makes are there. On
// a nil Lab it is f.
func (b *Lab) Do(f func() error) error {
	if b == nil {
		return f()
	}
	return b.host.do(f)
}

// Outside calls f on a thread that is in the internet.
func (b *Lab) Outside(f func() error) error { return b.internet.do(f) }

// Space is the network namespace of the host.
func (b *Lab) Space() *os.File { return b.host.file }

// AddAddress gives the host another address.
func (b *Lab) AddAddress(a netip.Prefix) error {
	return b.host.do(func() error { return address("eth0", a.String()) })
}

// place is a namespace with a thread that stays in it, for programs may be told
// to end with the thread that has started them.
type place struct {
	file *os.File
	work chan func()
}

// newPlace creates a network namespace that lasts until the test ends.
func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{work: make(chan func())}
	ready := make(chan error)
	go p.keepNamespace(ready)
	if err := <-ready; err != nil {
		t.Fatalf("cannot make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		close(p.work)
		p.file.Close()
	})
	return p
}

// keepNamespace creates the namespace on a thread of its own and runs p.work there. ready
// gets the error, or nil when the namespace exists.
func (p *place) keepNamespace(ready chan error) {
	runtime.LockOSThread() // for good: a thread that is locked ends with its goroutine
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		again := make(chan error)
		go p.keepNamespace(again) // while this holds the main thread, it goes elsewhere
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
		// What the real host has set is not what the test means.
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

// do runs f in the namespace and returns its error.
func (p *place) do(f func() error) error {
	done := make(chan error, 1)
	p.work <- func() { done <- f() }
	return <-done
}

// carries waits until eth0 of the thread's namespace carries packets: a while
// after it is up it still loses them.
func carries() error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return errors.New("eth0 does not get ready")
}

// address gives a device of the thread's namespace an address, and takes it up.
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
		return fmt.Errorf("cannot give %s the address %s: %w", device, a, err)
	}
	return netlink.LinkSetUp(l)
}
