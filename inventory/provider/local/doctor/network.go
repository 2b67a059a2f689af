package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/egress"
	"patchbay/inventory/provider/local/fabric"
	"patchbay/inventory/provider/local/vswitch"
)

// Packages fabric, vswitch and egress contain the tests of their own requirements. Here
// these tests run in children with temporary network namespaces.

func inOwnNetwork(name string) func(context.Context, *resources) (string, *trouble) {
	return func(ctx context.Context, _ *resources) (string, *trouble) {
		return probe(ctx, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, nil, name)
	}
}

func tryOutside(ctx context.Context, _ *resources) (string, *trouble) {
	// The probe runs in the host's own network, because it reads the host's firewall.
	return probe(ctx, &syscall.SysProcAttr{}, nil, "outside")
}

// remedyFor returns the remedy for a failed probe. The parameter words is the text of
// the probe's error. For missing permissions, the remedy is that for containers.
// Otherwise it is module, the command that loads a kernel module.
func remedyFor(words, module string) string {
	for _, e := range []error{unix.EPERM, unix.EACCES} {
		if strings.Contains(words, e.Error()) {
			return container
		}
	}
	return module
}

func probeLinks([]string) (string, *trouble) {
	if _, err := fabric.Probe(context.Background()); err != nil {
		return "", &trouble{fmt.Sprintf("nodes cannot be linked: %v", err), remedyFor(err.Error(), "modprobe veth bridge")}
	}
	return "bridges and pairs of network devices work: nodes can be linked", nil
}

// probeMechanism returns the probe of a mechanism of links. feature is its name in
// fabric.Features.Missing. words is the message if the probe succeeds, and module the
// command that loads the kernel module. consequence says what a site cannot do
// without the mechanism.
func probeMechanism(feature, words, module, consequence string) func([]string) (string, *trouble) {
	return func([]string) (string, *trouble) {
		a, err := fabric.Probe(context.Background())
		why := a.Missing[feature]
		if err != nil {
			why = err.Error()
		}
		if why != "" {
			return "", &trouble{why, remedyFor(why, module) + "; " + consequence}
		}
		return words, nil
	}
}

const measureTime = 200 * time.Millisecond

// probeTunnel tests TAP devices, and measures how much the vswitch carries.
func probeTunnel([]string) (string, *trouble) {
	f, err := vswitch.OpenTAP("probe0", true)
	if err != nil {
		words := fmt.Sprintf("cannot make a tunnel device (/dev/net/tun): %v", err)
		remedy := remedyFor(err.Error(), "modprobe tun")
		if errors.Is(err, fs.ErrNotExist) {
			remedy = "modprobe tun"
		}
		return "", &trouble{words, remedy + "; without it links have latency only if the kernel supports it, and no properties that differ between pairs of nodes"}
	}
	f.Close()
	const works = "tunnels work: a switch process can delay and lose the packets of links"
	frames, err := vswitch.Measure(measureTime)
	if err != nil {
		return works + fmt.Sprintf("; how much it carries could not be measured: %v", err), nil
	}
	return works + fmt.Sprintf("; on this host, as busy as it is now, it carries about %.1f Gbit/s of full frames over one link, and drops frames beyond that", frames*1514*8/1e9), nil
}

func probeOutside([]string) (string, *trouble) {
	if err := egress.SelfTest(); err != nil {
		return "", &trouble{
			fmt.Sprintf("nodes cannot be connected to the outside network: %v", err),
			remedyFor(err.Error(), "modprobe veth nf_tables nft_ct nft_masq nft_connlimit nft_limit nft_fib_ipv4 nft_reject_ipv4") + "; it is for sites with outbound: yes",
		}
	}
	for _, o := range egress.Obstacles() {
		return "", &trouble{o.Message, o.Remedy + "; it is for sites with outbound: yes"}
	}
	return "nodes can be connected to the outside network, and to nothing else (for sites with outbound: yes)", nil
}
