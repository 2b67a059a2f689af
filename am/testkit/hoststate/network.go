package hoststate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// takeInterfaces adds the network interfaces of the host and of the test's namespaces. It skips
// interfaces of the host whose alias names another owner.
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
