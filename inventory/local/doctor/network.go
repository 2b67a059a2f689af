package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// later is said of what only links between nodes will need.
const later = "links between nodes, which come with a later release, will need it"

func ownNetwork() *syscall.SysProcAttr { return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET} }

func tryLinks(ctx context.Context, _ *bench) (string, *trouble) {
	return probe(ctx, ownNetwork(), nil, "links")
}

func tryTunnel(ctx context.Context, _ *bench) (string, *trouble) {
	return probe(ctx, ownNetwork(), nil, "tunnel")
}

func tryCapacity(ctx context.Context, _ *bench) (string, *trouble) {
	return probe(ctx, ownNetwork(), nil, "capacity")
}

func tryDelay(ctx context.Context, _ *bench) (string, *trouble) {
	return probe(ctx, ownNetwork(), nil, "delay")
}

// request is a message to rtnetlink.
type request struct{ b []byte }

func newRequest(kind, flags uint16) *request {
	r := &request{make([]byte, unix.NLMSG_HDRLEN)}
	binary.NativeEndian.PutUint16(r.b[4:], kind)
	binary.NativeEndian.PutUint16(r.b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	return r
}

func (r *request) words(words ...uint32) *request {
	for _, w := range words {
		r.b = binary.NativeEndian.AppendUint32(r.b, w)
	}
	return r
}

// attribute appends one, aligned.
func (r *request) attribute(kind uint16, value []byte) *request {
	r.b = binary.NativeEndian.AppendUint16(r.b, uint16(4+len(value)))
	r.b = binary.NativeEndian.AppendUint16(r.b, kind)
	r.b = append(r.b, value...)
	for len(r.b)%4 != 0 {
		r.b = append(r.b, 0)
	}
	return r
}

// nested appends an attribute made of others.
func (r *request) nested(kind uint16, inner func(*request)) *request {
	in := &request{}
	inner(in)
	return r.attribute(kind, in.b)
}

func text(s string) []byte { return append([]byte(s), 0) }

// do sends the request and returns the kernel's answer.
func (r *request) do() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	binary.NativeEndian.PutUint32(r.b, uint32(len(r.b)))
	if err := unix.Sendto(fd, r.b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	b := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel gave no answer that we know")
	}
	if code := int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// link asks for a network device; the words are its struct ifinfomsg.
func link(kind, name string, data func(*request)) error {
	r := newRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL).words(0, 0, 0, 0)
	r.attribute(unix.IFLA_IFNAME, text(name))
	r.nested(unix.IFLA_LINKINFO, func(r *request) {
		r.attribute(unix.IFLA_INFO_KIND, text(kind))
		if data != nil {
			r.nested(unix.IFLA_INFO_DATA, data)
		}
	})
	return r.do()
}

// number of a network device.
func number(name string) (uint32, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, r); err != nil {
		return 0, err
	}
	return r.Uint32(), nil
}

func probeLinks([]string) (string, *trouble) {
	if err := link("bridge", "br0", nil); err != nil {
		return "", bad("make a bridge", err, remedyFor(err, "modprobe bridge")+"; "+later)
	}
	const peer = 1 // VETH_INFO_PEER: the other end, as a device of its own
	err := link("veth", "ve0", func(r *request) {
		r.nested(peer, func(r *request) { r.words(0, 0, 0, 0).attribute(unix.IFLA_IFNAME, text("ve1")) })
	})
	if err != nil {
		return "", bad("make a pair of network devices", err, remedyFor(err, "modprobe veth")+"; "+later)
	}
	bridge, err := number("br0")
	end, err2 := number("ve0")
	if err := errors.Join(err, err2); err != nil {
		return "", bad("find a network device", err, container)
	}
	err = newRequest(unix.RTM_NEWLINK, 0).words(0, end, 0, 0).attribute(unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, bridge)).do()
	if err != nil {
		return "", bad("join a network device to a bridge", err, container+"; "+later)
	}
	return "bridges and pairs of network devices work", nil
}

// remedyFor is a module to load where the kernel does not know a kind.
func remedyFor(err error, module string) string {
	if forbidden(err) {
		return container
	}
	return module
}

func probeTunnel([]string) (string, *trouble) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", bad("open /dev/net/tun", err, "modprobe tun; latency and loss of links, which come with a later release, will need it where netem is missing")
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("probe%d")
	if err != nil {
		return "", bad("name a tunnel", err, container)
	}
	r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return "", bad("make a tunnel", err, container)
	}
	return "tunnels work: latency and loss of links can be made by a program", nil
}

// discipline puts one at the root of a new device; the words of the message are
// its struct tcmsg.
func discipline(kind string, options func(*request)) error {
	if err := link("veth", "ve0", nil); err != nil {
		return fmt.Errorf("no device to try it on: %w", err)
	}
	n, err := number("ve0")
	if err != nil {
		return err
	}
	r := newRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	const root = 0xffffffff
	r.words(0, n, 0, root, 0).attribute(unix.TCA_KIND, text(kind))
	r.nested(unix.TCA_OPTIONS, options)
	if err := r.do(); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return errors.New("this kernel does not have it")
}

// probeCapacity asks for 1 Mbit/s.
func probeCapacity([]string) (string, *trouble) {
	const parameters = 1                              // TCA_TBF_PARMS
	const ethernet = 1                                // TC_LINKLAYER_ETHERNET
	const rate, limit, buffer = 125000, 30000, 200000 // bytes a second, bytes, ticks
	err := discipline("tbf", func(r *request) {
		p := &request{}
		p.b = append(p.b, 0, ethernet, 0, 0, 0, 0, 0, 0) // struct tc_ratespec
		p.words(rate)
		p.words(0, 0, 0) // no peak rate
		p.words(limit, buffer, 0)
		r.attribute(parameters, p.b)
	})
	if err != nil {
		return "", bad("limit the capacity of a device (tbf)", err, remedyFor(err, "modprobe sch_tbf")+"; capacities of links, which come with a later release, will need it")
	}
	return "the kernel can limit the capacity of links", nil
}

// probeDelay asks for 10 ms.
func probeDelay([]string) (string, *trouble) {
	err := discipline("netem", func(r *request) {
		const limit = 1000                  // packets
		ticks := uint32(10_000 * 1000 / 64) // of 64 ns
		r.words(ticks, limit, 0, 0, 0, 0)
	})
	// The options of netem are its struct, without an attribute around it.
	if err != nil {
		return "", bad("delay a device (netem)", err, remedyFor(err, "modprobe sch_netem")+"; without it a program will make latency and loss of links, which come with a later release, over a tunnel device")
	}
	return "the kernel can delay packets, and lose some", nil
}
