package hoststate

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

type network struct {
	proc string // the folder in /proc of a process in the namespace
	name string // for descriptions
	host bool
}

func (k *taker) networks() []network {
	own := link("/proc/self/ns/net")
	list := []network{{proc: "/proc/self", name: "on the host", host: true}}
	seen := map[string]bool{own: true}
	for _, p := range k.processes {
		if name := link(p.path("ns/net")); p.ours && name != "" && !seen[name] {
			seen[name] = true
			list = append(list, network{proc: p.path(), name: "in " + name})
		}
	}
	return list
}

// takeInterfaces skips interfaces of the host whose alias names another owner.
func (k *taker) takeInterfaces() error {
	alias, err := aliases()
	if err != nil {
		return err
	}
	for _, n := range k.networks() {
		b, err := os.ReadFile(filepath.Join(n.proc, "net/dev"))
		if err != nil {
			if !n.host && vanished(err) {
				continue
			}
			return err
		}
		for line := range strings.Lines(string(b)) {
			name, _, found := strings.Cut(line, ":")
			if name = strings.TrimSpace(name); !found || n.host && alias[name] != "" && !k.isMarked(alias[name]) {
				continue
			}
			k.add("network interface %s %s", name, n.name)
		}
	}
	return nil
}

// aliases returns the aliases of the host's interfaces, by the interface's name. An alias
// names the interface's owner.
func aliases() (map[string]string, error) {
	for tries := 1; ; tries++ {
		list, err := netlink.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) && tries < 10 {
			continue // the list changed meanwhile, because other programs create and remove interfaces
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the network interfaces of the host: %w", err)
		}
		m := make(map[string]string, len(list))
		for _, l := range list {
			m[l.Attrs().Name] = l.Attrs().Alias
		}
		return m, nil
	}
}

// takeSockets adds listening TCP sockets, and Unix sockets that listen or have a name. In the
// host's namespace, it adds a socket only if a process of the test has the socket open, or if
// the socket's name has a mark.
func (k *taker) takeSockets() error {
	for _, n := range k.networks() {
		for _, table := range []struct {
			name string
			take func(n network, fields []string)
		}{{"tcp", k.takeTCP}, {"tcp6", k.takeTCP}, {"unix", k.takeUnix}} {
			b, err := os.ReadFile(filepath.Join(n.proc, "net", table.name))
			if err != nil {
				if vanished(err) {
					continue // also where the kernel has no IPv6
				}
				return err
			}
			for line := range strings.Lines(string(b)) {
				table.take(n, strings.Fields(line))
			}
		}
	}
	return nil
}

// isIncluded reports whether a socket belongs to the state. In the host's namespace, only the
// test's own sockets belong to it. In other namespaces, all sockets do.
func (k *taker) isIncluded(n network, inode, path string) bool {
	return !n.host || k.sockets[inode] || path != "" && k.isMarked(path)
}

// takeTCP adds the TCP socket in a line of net/tcp or net/tcp6, if the socket listens.
func (k *taker) takeTCP(n network, f []string) {
	const listening = "0A"
	if len(f) > 9 && f[3] == listening && k.isIncluded(n, f[9], "") {
		k.add("listening TCP socket %s at %s", n.name, tcpAddress(f[1]))
	}
}

// takeUnix adds the Unix socket in a line of net/unix, if the socket listens or has a name.
func (k *taker) takeUnix(n network, f []string) {
	if len(f) < 7 {
		return
	}
	path := strings.Join(f[7:], " ")
	flags, err := strconv.ParseUint(f[3], 16, 32)
	if err != nil {
		return // the line with the headings
	}
	if listens := flags&0x10000 != 0; (listens || path != "") && k.isIncluded(n, f[6], path) {
		if listens {
			k.add("listening Unix socket %s at %q", n.name, path)
		} else {
			k.add("Unix socket %s at %q", n.name, path)
		}
	}
}

// tcpAddress converts an address from the form in net/tcp to the form IP:PORT. In net/tcp the
// IP address consists of 32-bit words in the machine's byte order, and all numbers are
// hexadecimal. If text has another form, tcpAddress returns text.
func tcpAddress(text string) string {
	a, p, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(a)
	port, perr := strconv.ParseUint(p, 16, 16)
	if err != nil || perr != nil || len(b)%4 != 0 {
		return text
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return text
	}
	return netip.AddrPortFrom(addr, uint16(port)).String()
}
