package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/egress"
	"patchbay/inventory/local/fabric"
	"patchbay/inventory/local/vswitch"
)

// What links and the way outside need is tried by those that make them, in a
// process and in network namespaces that go again.

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

func tryStorms(ctx context.Context, _ *bench) (string, *trouble) {
	return probe(ctx, ownNetwork(), nil, "storms")
}

func tryOutside(ctx context.Context, _ *bench) (string, *trouble) {
	// In the host's own network, whose firewall is looked at.
	return probe(ctx, &syscall.SysProcAttr{}, nil, "outside")
}

// remedyFor is a module to load where nothing forbids it.
func remedyFor(words, module string) string {
	for _, e := range []error{unix.EPERM, unix.EACCES} {
		if strings.Contains(words, e.Error()) {
			return container
		}
	}
	return module
}

func probeLinks([]string) (string, *trouble) {
	if _, err := fabric.Try(context.Background()); err != nil {
		return "", &trouble{fmt.Sprintf("nodes cannot be linked: %v", err), remedyFor(err.Error(), "modprobe veth bridge")}
	}
	return "bridges and pairs of network devices work: nodes can be linked", nil
}

// probeAbility tries what shapes links; what is the name that fabric gives it.
func probeAbility(what string, has func(fabric.Abilities) bool, words, module, without string) (string, *trouble) {
	a, err := fabric.Try(context.Background())
	why := a.Why[what]
	if err != nil {
		why = err.Error()
	}
	if err != nil || !has(a) {
		return "", &trouble{why, remedyFor(why, module) + "; " + without}
	}
	return words, nil
}

func probeTunnel([]string) (string, *trouble) {
	f, err := vswitch.OpenTAP("probe0", true)
	if err != nil {
		words := fmt.Sprintf("cannot make a tunnel device (/dev/net/tun): %v", err)
		remedy := remedyFor(err.Error(), "modprobe tun")
		if errors.Is(err, fs.ErrNotExist) {
			remedy = "modprobe tun"
		}
		return "", &trouble{words, remedy + "; without it links have latency, and properties that differ between pairs of nodes, only where the kernel has them"}
	}
	f.Close()
	return "tunnels work: a program can delay and lose the packets of links", nil
}

func probeCapacity([]string) (string, *trouble) {
	return probeAbility("tbf", func(a fabric.Abilities) bool { return a.TBF },
		"the kernel can limit the capacity of links", "modprobe sch_tbf", "without it requests that ask for a capacity are refused")
}

func probeDelay([]string) (string, *trouble) {
	return probeAbility("netem", func(a fabric.Abilities) bool { return a.Netem },
		"the kernel can delay and lose the packets of links", "modprobe sch_netem", "without it a program does it over tunnel devices, as exactly, with more work for the processors")
}

func probeStorms([]string) (string, *trouble) {
	return probeAbility("inflow", func(a fabric.Abilities) bool { return a.Inflow },
		"nftables can bound what circles in rings of links", "modprobe nf_tables nf_tables_bridge nft_limit", "without it a node that is in two links can take the host's processors from all others")
}

func probeOutside([]string) (string, *trouble) {
	if err := egress.Try(); err != nil {
		return "", &trouble{
			fmt.Sprintf("nodes cannot be led to the network outside: %v", err),
			remedyFor(err.Error(), "modprobe veth nf_tables nft_ct nft_masq nft_connlimit nft_limit nft_fib_ipv4 nft_reject_ipv4") + "; it is for sites with outbound: yes",
		}
	}
	for _, o := range egress.Obstacles() {
		return "", &trouble{o.Words, o.Remedy + "; it is for sites with outbound: yes"}
	}
	return "nodes can be led to the network outside, and kept from all else (for sites with outbound: yes)", nil
}
