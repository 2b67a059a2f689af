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

	"patchbay/inventory/local/netspace"
)

// Options of an Router.
type Options struct {
	// Folder is the instance's own for it, which is made; nothing else is in it.
	Folder   string
	Instance string
	// Number is the uplink's, below MaxUplinks, which no other instance has and for
	// which IsFree was true when it was chosen.
	Number uint32
	// Servers are asked for names; none are those of the host's resolv.conf.
	Servers []netip.Addr
	// SourceAddresses are addresses as which nodes are seen outside, where a router gives the
	// host others; none are the host's own.
	SourceAddresses []netip.Addr
	// Block are networks that no node reaches, beside the PrivateNetworks ones.
	Block []netip.Prefix
	Log   *slog.Logger

	host  *os.File      // nil: the network namespace of this process
	every time.Duration // between looks at the host; 0: as always
}

// Router is the way outside of an instance's nodes. Its methods may be called from
// any goroutine.
type Router struct {
	o       Options
	device  string
	blocked []netip.Prefix
	space   *os.File
	names   *names

	attaching sync.Mutex // held while a node's devices are changed
	forgets   forgets
	mtu       atomic.Int32
	appears   atomic.Pointer[[]netip.Addr] // as which the host sends outside
	stop      context.CancelFunc
	watching  sync.WaitGroup

	// Of the goroutine that watches, after Open.
	seen             host
	guarded          []string
	unfilled         bool // the set of the host's addresses is new
	unguarded        bool // that of the guards is
	table, hostTable *ruleset
	own, guards      *nftables.Set
}

const pinFile = "space"

const every = 2 * time.Second

// Open makes the exit, or finds it and mends what is missing, and keeps it right
// until Close.
func Open(o Options) (*Router, error) {
	if o.Number >= MaxUplinks {
		return nil, fmt.Errorf("%d is no number of an uplink: 0 to %d", o.Number, MaxUplinks-1)
	}
	if err := os.Mkdir(o.Folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make the folder of the way outside: %w", err)
	}
	space, err := netspace.Make(filepath.Join(o.Folder, pinFile))
	if err != nil {
		return nil, err
	}
	return start(o, space)
}

// start makes the exit in a namespace, which is closed with it.
func start(o Options, space *os.File) (*Router, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Router{o: o, device: device(o.Instance), blocked: slices.Concat(PrivateNetworks(), o.Block), space: space, unfilled: true, unguarded: true}
	e.mtu.Store(mostMTU)
	_, behind := uplink(o.Number)
	err := netlinkIn(space, prepare)
	if err != nil {
		err = fmt.Errorf("cannot prepare the exit of nodes: %w", err)
	} else {
		err = e.onHost(func() error {
			most := mostConnections()
			e.table, e.own = exitTable(e.o.Number, e.blocked, most)
			e.hostTable, e.guards = hostTable(tableName(o.Instance), e.device, behind.Addr(), e.blocked, most)
			for _, o := range Obstacles() {
				e.o.Log.Warn(o.Message+", so nodes may not reach the network outside", "remedy", o.Remedy)
			}
			return e.mend()
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

// Close lets go of the exit, which stays as it is: nodes go on reaching the
// outside, by addresses only.
func (e *Router) Close() error {
	e.stop()
	e.names.close()
	e.watching.Wait()
	return e.space.Close()
}

// onHost calls f where the host's network is.
func (e *Router) onHost(f func() error) error {
	if e.o.host == nil {
		return f()
	}
	return netspace.Inside(e.o.host, f)
}

func tableName(instance string) string { return "patchbay-local-" + instance }

// prepare sets up a new exit, in whose namespace the calling thread is.
func prepare(h *netlink.Handle) error {
	// No IPv6, where there is any.
	_ = kernel([2]string{"ipv6/conf/all/disable_ipv6", "1"}, [2]string{"ipv6/conf/default/disable_ipv6", "1"})
	err := kernel(
		[2]string{"ipv4/conf/all/rp_filter", "1"}, [2]string{"ipv4/conf/default/rp_filter", "1"},
		[2]string{"ipv4/conf/all/accept_redirects", "0"}, [2]string{"ipv4/conf/default/accept_redirects", "0"},
		[2]string{"ipv4/conf/all/send_redirects", "0"}, [2]string{"ipv4/conf/default/send_redirects", "0"},
		[2]string{"ipv4/conf/all/accept_source_route", "0"}, [2]string{"ipv4/conf/default/accept_source_route", "0"},
		[2]string{"ipv4/icmp_ratelimit", "0"}, // each refusal is told
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
	return takeUp(h, lo)
}

// mend makes all as it should be; the calling thread is on the host.
func (e *Router) mend() error {
	// First the filters, then the way.
	err := netspace.Inside(e.space, func() error {
		was, err := e.table.put()
		e.unfilled = e.unfilled || !was
		// For connections that nobody ends, where each namespace has its own times.
		_ = kernel([2]string{"netfilter/nf_conntrack_tcp_timeout_established", "7200"})
		return err
	})
	if err != nil {
		return err
	}
	was, err := e.hostTable.put()
	e.unguarded = e.unguarded || !was
	if err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	// Before look: the kernel knows no way on from a device that may not pass on.
	if err := setForwarding(e.device, "1"); err != nil {
		return err
	}
	seen, err := e.look()
	if err != nil {
		return err
	}
	if e.unfilled || !slices.Equal(seen.addresses, e.seen.addresses) {
		e.unfilled = true
		if err := netspace.Inside(e.space, func() error { return fill(e.own, addresses(seen.addresses)) }); err != nil {
			return err
		}
		e.unfilled = false
	}
	e.seen = seen
	e.mtu.Store(int32(seen.mtu))
	e.appears.Store(&seen.appears)
	return e.forward(seen.ways)
}

// watch mends what others change, and follows the host.
func (e *Router) watch(ctx context.Context) {
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cmp.Or(e.o.every, every)):
		}
		err := e.onHost(e.mend)
		now := ""
		if err != nil {
			now = err.Error()
		}
		if now != last && err != nil {
			e.o.Log.Error("the way outside of nodes is not in order; that is tried again and again", "error", err)
		} else if now != last {
			e.o.Log.Info("the way outside of nodes is in order again")
		}
		last = now
		e.names.reread()
	}
}

// mostConnections is how many connections of all nodes may be open: a quarter of
// what the host can keep in mind, so that it never forgets its own.
func mostConnections() uint32 {
	const most = 1 << 16
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		b, err = os.ReadFile("/proc/sys/net/nf_conntrack_max")
	}
	n, bad := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || bad != nil || n < 4 {
		return most / 4 // the table is made with the first rule
	}
	return uint32(min(n/4, most))
}

// Remove removes all that an instance has of it, in folder and on the host, and
// sets back what was changed of the host. Nobody may have it open.
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
	return os.RemoveAll(folder) // a killed write leaves a file of its own there
}

// empty removes all devices of the exit at once: the kernel takes its time with
// those of a namespace that ends.
func empty(h *netlink.Handle) error {
	all, err := links(h)
	for _, l := range all {
		if l.Type() != "veth" {
			continue
		}
		if e := h.LinkDel(l); e != nil && !errors.Is(e, unix.ENODEV) { // its other end may have gone just now
			err = errors.Join(err, fmt.Errorf("cannot remove the device %s: %w", l.Attrs().Name, e))
		}
	}
	return err
}
