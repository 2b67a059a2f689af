package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// Options configure a Router.
type Options struct {
	// Folder holds only files of the Router. Open creates it.
	Folder   string
	Instance string
	// Number is the number of the uplink, below MaxUplinks. It must be free (see IsFree),
	// and no other testbed of this host may use it.
	Number uint32
	// Servers are the name servers; empty means those of the host's resolv.conf.
	Servers []netip.Addr
	// SourceAddresses are the public addresses from which nodes' connections come, if an
	// outside router translates the host's addresses. Empty means the host's own
	// addresses.
	SourceAddresses []netip.Addr
	// Block are networks that no node reaches, in addition to PrivateNetworks.
	Block []netip.Prefix
	Log   *slog.Logger

	host     *os.File      // nil: the network namespace of this process
	interval time.Duration // interval of checks of the host; 0: the default
}

// Router connects the nodes of a testbed with the Internet. Its methods may be called
// concurrently.
type Router struct {
	options Options
	device  string
	blocked []netip.Prefix
	space   *os.File
	names   *dnsProxy

	attaching       sync.Mutex // held while a node's devices change
	forgets         forgetBatches
	mtu             atomic.Int32
	sourceAddresses atomic.Pointer[[]netip.Addr] // the host's addresses for outgoing traffic
	stop            context.CancelFunc
	watching        sync.WaitGroup

	// The fields below are used only by Open, and then by the goroutine of watch.
	host             host
	guarded          []string
	hostSetEmpty     bool // the set of the host's addresses is new and empty
	guardSetEmpty    bool // the set of guarded devices is new and empty
	table, hostTable *ruleset
	own, guards      *nftables.Set
}

// pinFile is the mount of the egress namespace, in Options.Folder.
const pinFile = "space"

const defaultInterval = 2 * time.Second

// Open creates the egress namespace, or repairs an existing one. Until Close is called,
// the Router checks the networks of the namespace and of the host every few seconds, and
// repairs them.
func Open(o Options) (*Router, error) {
	if o.Number >= MaxUplinks {
		return nil, fmt.Errorf("invalid uplink number %d; use 0 to %d", o.Number, MaxUplinks-1)
	}
	if err := os.Mkdir(o.Folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot create the egress folder: %w", err)
	}
	space, err := netspace.Make(filepath.Join(o.Folder, pinFile))
	if err != nil {
		return nil, err
	}
	return start(o, space)
}

// start sets up a new or an existing egress namespace, connects it with the host, and starts the DNS proxy and
// the periodic repair. It closes space after an error.
func start(o Options, space *os.File) (*Router, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Router{options: o, device: device(o.Instance), blocked: slices.Concat(PrivateNetworks(), o.Block), space: space, hostSetEmpty: true, guardSetEmpty: true}
	e.mtu.Store(mostMTU)
	_, exit := uplink(o.Number)
	err := netlinkIn(space, prepare)
	if err != nil {
		err = fmt.Errorf("cannot set up the egress namespace: %w", err)
	} else {
		err = e.onHost(func() error {
			most := mostConnections()
			e.table, e.own = exitTable(e.options.Number, e.blocked, most)
			e.hostTable, e.guards = hostTable(tableName(o.Instance), e.device, exit.Addr(), e.blocked, most)
			for _, o := range Obstacles() {
				e.options.Log.Warn(o.Message+", so nodes may not reach the outside network", "remedy", o.Remedy)
			}
			return e.repair()
		})
	}
	if err == nil {
		e.names, err = openNames(e)
	}
	if err != nil {
		space.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.watching.Go(func() { e.watch(ctx) })
	return e, nil
}

// Close stops the DNS proxy and the checks of the network. Nodes still reach the
// Internet, but cannot resolve names.
func (e *Router) Close() error {
	e.stop()
	e.names.close()
	e.watching.Wait()
	return e.space.Close()
}

func (e *Router) onHost(f func() error) error {
	if e.options.host == nil {
		return f()
	}
	return netspace.Inside(e.options.host, f)
}

func tableName(instance string) string { return "patchbay-local-" + instance }

// prepare configures the new egress namespace: no IPv6, forwarding, the gateway's address. The thread must be
// in that namespace.
func prepare(h *netlink.Handle) error {
	// Switch off IPv6, if the kernel has it.
	_ = setSysctls([2]string{"ipv6/conf/all/disable_ipv6", "1"}, [2]string{"ipv6/conf/default/disable_ipv6", "1"})
	err := setSysctls(
		[2]string{"ipv4/conf/all/rp_filter", "1"}, [2]string{"ipv4/conf/default/rp_filter", "1"},
		[2]string{"ipv4/conf/all/accept_redirects", "0"}, [2]string{"ipv4/conf/default/accept_redirects", "0"},
		[2]string{"ipv4/conf/all/send_redirects", "0"}, [2]string{"ipv4/conf/default/send_redirects", "0"},
		[2]string{"ipv4/conf/all/accept_source_route", "0"}, [2]string{"ipv4/conf/default/accept_source_route", "0"},
		[2]string{"ipv4/icmp_ratelimit", "0"}, // no rate limit: each refused packet is reported to its sender
		[2]string{"ipv4/ipfrag_high_thresh", strconv.Itoa(fragmentMemory)}, [2]string{"ipv4/ipfrag_time", strconv.Itoa(fragmentTime)},
		[2]string{"ipv4/ip_forward", "1"},
	)
	if err != nil {
		return err
	}
	lo, err := mustLink(h, "lo")
	if err != nil {
		return err
	}
	if err := h.AddrReplace(lo, &netlink.Addr{IPNet: netspace.IPNet(netip.PrefixFrom(Gateway(), 32))}); err != nil {
		return fmt.Errorf("cannot give lo the address %s: %w", Gateway(), err)
	}
	return switchOn(h, lo)
}

// repair restores everything that is missing or wrong in the egress namespace and on the
// host. The calling thread must be in the host's network namespace.
func (e *Router) repair() error {
	// The filters come before the routes, so that nothing passes unfiltered.
	err := netspace.Inside(e.space, func() error {
		was, err := e.table.install()
		e.hostSetEmpty = e.hostSetEmpty || !was
		// The kernel forgets connections that are idle for two hours. Each namespace has its
		// own timeouts.
		_ = setSysctls([2]string{"netfilter/nf_conntrack_tcp_timeout_established", "7200"})
		return err
	})
	if err != nil {
		return err
	}
	was, err := e.hostTable.install()
	e.guardSetEmpty = e.guardSetEmpty || !was
	if err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	// This comes before readHost, because the kernel finds no route from a device without
	// forwarding.
	if err := setForwarding(e.device, "1"); err != nil {
		return err
	}
	seen, err := e.readHost()
	if err != nil {
		return err
	}
	if e.hostSetEmpty || !slices.Equal(seen.addresses, e.host.addresses) {
		e.hostSetEmpty = true
		if err := netspace.Inside(e.space, func() error { return fill(e.own, addresses(seen.addresses)) }); err != nil {
			return err
		}
		e.hostSetEmpty = false
	}
	e.host = seen
	e.mtu.Store(int32(seen.mtu))
	e.sourceAddresses.Store(&seen.sources)
	return e.forward(seen.devices)
}

// watch calls repair every few seconds until ctx ends, because other programs change the
// host's network. It logs when repair begins to fail and when it works again.
func (e *Router) watch(ctx context.Context) {
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cmp.Or(e.options.interval, defaultInterval)):
		}
		err := e.onHost(e.repair)
		now := ""
		if err != nil {
			now = err.Error()
		}
		if now != last && err != nil {
			e.options.Log.Error("the nodes' outside network is broken; repair is retried", "error", err)
		} else if now != last {
			e.options.Log.Info("the nodes' outside network works again")
		}
		last = now
		e.names.reread()
	}
}

// mostConnections returns the limit of open connections of all nodes: a quarter of the
// host's conntrack table, so that nodes cannot fill the table.
func mostConnections() uint32 {
	const most = 1 << 16
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		b, err = os.ReadFile("/proc/sys/net/nf_conntrack_max")
	}
	n, bad := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || bad != nil || n < 4 {
		return most / 4 // the kernel loads conntrack only with the first rule
	}
	return uint32(min(n/4, most))
}

// Remove removes everything that a testbed's Router has created, in folder and on the
// host, and undoes its changes of the host. The Router must be closed.
func Remove(folder, instance string) error {
	name := device(instance)
	if err := undo(folder, name); err != nil {
		return err
	}
	path := filepath.Join(folder, pinFile)
	if space, err := netspace.Open(path); err == nil {
		err = netlinkIn(space, empty)
		if err = errors.Join(err, space.Close()); err != nil {
			return err
		}
	}
	err := errors.Join(remove(name), dropTable(tableName(instance)), netspace.Remove(path))
	if err != nil {
		return err
	}
	return os.RemoveAll(folder) // an interrupted write leaves a temporary file there
}

// empty deletes all veth devices of a namespace. Otherwise they would exist until the
// kernel has removed the namespace, which may be much later.
func empty(h *netlink.Handle) error {
	all, err := links(h)
	for _, l := range all {
		if l.Type() != "veth" {
			continue
		}
		if e := h.LinkDel(l); e != nil && !errors.Is(e, unix.ENODEV) { // its other end may have been deleted just now
			err = errors.Join(err, fmt.Errorf("cannot remove the device %s: %w", l.Attrs().Name, e))
		}
	}
	return err
}
