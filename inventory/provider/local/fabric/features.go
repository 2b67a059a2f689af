package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/inventory/provider/local/netspace"
	"patchbay/inventory/provider/local/vswitch"
)

// Features are the shaping mechanisms that this host supports, detected by using them.
type Features struct {
	TBF, Netem, VSwitch bool
	// Inflow means that nftables can limit frames to groups (broadcast, multicast) and
	// frames from foreign addresses. Links also work without this limit.
	Inflow bool
	// Missing holds the reason for each missing feature, by "tbf", "netem", "vswitch" and
	// "inflow".
	Missing map[string]string

	limitsLearning bool // bridges limit the addresses that they learn
}

func (a Features) reason(feature string) string {
	if why := a.Missing[feature]; why != "" {
		return why
	}
	return "this host has no " + feature
}

// Probe detects the features in a temporary namespace. It returns an error only if this
// host lacks something that every link needs, such as namespaces or bridges.
func Probe(ctx context.Context) (Features, error) {
	a := Features{Missing: make(map[string]string)}
	if err := ctx.Err(); err != nil {
		return a, err
	}
	f, err := netspace.New()
	if err != nil {
		return a, fmt.Errorf("%w; only root can create links", err)
	}
	n, err := newNetwork(f)
	if err != nil {
		return a, errors.Join(err, f.Close())
	}
	defer n.close()
	return a, netspace.Inside(f, func() error { return errors.Join(configureNamespace(), a.detect(n)) })
}

// detect tries each feature in the temporary namespace of n, and records in a those that work. The thread must
// be in that namespace.
func (a *Features) detect(n *network) error {
	if _, err := n.bridge("b0", "scratch"); err != nil {
		return fmt.Errorf("%w; links need the module bridge", err)
	}
	var err error
	if a.limitsLearning, err = n.limitsLearning("b0"); err != nil {
		return err
	}
	if err := n.pair("v0", "v1", usualMTU); err != nil {
		return fmt.Errorf("%w; links need the module veth", err)
	}
	d, ok, err := n.device("v0")
	if err != nil || !ok {
		return errors.Join(err, errors.New("cannot make a pair of devices"))
	}
	note := func(what, words string, err error) bool {
		if err != nil {
			a.Missing[what] = words + ": " + err.Error()
		}
		return err == nil
	}
	a.TBF = note("tbf", "this kernel has no token bucket (tbf)", n.shape(d.index, shaper{rate: 1000, mtu: usualMTU}))
	a.Netem = note("netem", "this kernel has no netem", n.shape(d.index, shaper{delay: time.Millisecond, mtu: usualMTU}))
	_, err = n.readOwn()
	if err == nil {
		err = n.updateOwn(map[string]string{"p0": "\x02\x00\x00\x00\x00\x01"}, nil, nil)
	}
	a.Inflow = note("inflow", "nftables cannot limit the frames that nodes send", err)
	tap, err := vswitch.OpenTAP("t0", true)
	a.VSwitch = note("vswitch", "the vswitch needs TAP devices, which cannot be created here", err)
	if err == nil {
		tap.Close()
	}
	return nil
}
