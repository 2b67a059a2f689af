package fabric

import (
	"fmt"
	"math"
	"strings"

	"patchbay/inventory/provider/local/vswitch"
)

// Values of Options.Emulator.
const (
	Auto    = "auto"
	Netem   = "netem"
	VSwitch = "vswitch"
)

// plan describes how a link is made: its emulator, and the shaping of its frames.
type plan struct {
	emulator string
	vswitch  bool           // the vswitch is part of the emulator
	paths    []vswitch.Path // the properties that the vswitch applies
	segment  bool           // frames must reach the vswitch as single packets
	// ports has an element for each end, in order, and one for the shared VLAN, if any.
	ports []port
}

// port holds the shaping of frames to one end.
type port struct {
	tbf   int64      // kbit/s
	netem properties // latency and loss only
	split bool       // large segments are split before they reach the port
}

// uplink is the id of the shared VLAN's port. It contains a space, so it differs from the
// ids of all ends.
const uplink = "shared VLAN"

// decide returns the plan of a valid link, or an *UnsupportedError. The parameter
// forced is the emulator in the settings.
func decide(l Link, features Features, forced string) (plan, error) {
	if err := checkRanges(l); err != nil {
		return plan{}, err
	}
	m := newMatrix(l)
	s := m.sum()
	p := plan{ports: make([]port, m.ports)}
	means, err := s.choose(features, forced)
	if err != nil {
		return plan{}, err
	}
	words := []string{"bridge"}
	if s.rate && s.ratePort {
		if !features.TBF {
			return plan{}, &UnsupportedError{"capacity", features.reason("tbf"), "load the module sch_tbf"}
		}
		words = append(words, "tbf")
		for j := range p.ports {
			p.ports[j].tbf = s.ports[j].rate
		}
	}
	if means != "" {
		words = append(words, means)
	}
	switch means {
	case Netem:
		for j, a := range s.ports {
			p.ports[j].netem = properties{delay: a.delay, loss: a.loss}
			// netem's queue counts packets, and an unsplit segment has up to 64 KiB.
			p.ports[j].split = a.delay > 0 || a.loss > 0
		}
	case VSwitch:
		words = words[1:]
		p.vswitch = true
		var ok bool
		if p.paths, ok = m.paths(l, s); !ok {
			return plan{}, tooManyPairs()
		}
		p.segment = s.loss || s.rate && !s.ratePort
	}
	p.emulator = strings.Join(words, "+")
	return p, nil
}

// choose returns the emulator for latency, for loss, and for capacities that differ
// between pairs of interfaces. It returns "" if the link needs no emulator for them.
func (s *sum) choose(features Features, forced string) (string, error) {
	if !s.delay && !s.loss && s.ratePort && (forced != VSwitch || !s.rate) {
		return "", nil
	}
	single := s.ratePort && s.restPort // it suffices to shape each port
	if forced != VSwitch && single && features.Netem {
		return Netem, nil
	}
	if forced != Netem && features.VSwitch {
		return VSwitch, nil
	}
	// property is the requested property that makes the link impossible.
	property := "capacity"
	switch {
	case s.delay:
		property = "latency"
	case s.loss:
		property = "packet_loss"
	}
	const differ = "it differs between the other interfaces of the link, and this testbed cannot shape pairs of interfaces separately"
	reason, remedy := features.reason("netem")+", and "+features.reason("vswitch"), "load the module sch_netem or tun"
	switch {
	case forced == VSwitch:
		reason, remedy = features.reason("vswitch"), "load the module tun, or set emulator: auto"
	case forced == Netem && single:
		reason, remedy = features.reason("netem"), "load the module sch_netem, or set emulator: auto"
	case forced == Netem:
		reason, remedy = differ, "set emulator: auto"
	case !single:
		reason, remedy = differ+", but "+features.reason("vswitch"), "load the module tun"
	}
	return "", &UnsupportedError{property, reason, remedy}
}

// CheckEmulator returns an error if this host does not support emulator, a value of
// Options.Emulator.
func (a Features) CheckEmulator(emulator string) error {
	module := ""
	switch {
	case emulator == Netem && !a.Netem:
		module = "sch_netem"
	case emulator == VSwitch && !a.VSwitch:
		module = "tun"
	default:
		return nil
	}
	return fmt.Errorf("emulator is %s, but %s; type: modprobe -a %s; or set emulator: auto", emulator, a.reason(emulator), module)
}

func checkRanges(l Link) error {
	if len(l.Ends) > maxEnds {
		return &UnsupportedError{"so many interfaces", fmt.Sprintf("it has %d, and a Linux bridge has at most %d; split the link", len(l.Ends), maxEnds), ""}
	}
	pairs := 0
	for _, s := range l.Shapes {
		if pairs += max(1, len(s.From)) * max(1, len(s.To)); pairs > maxListed {
			return tooManyPairs()
		}
		switch {
		case s.Rate < 0 || s.Rate > maxRate:
			return &UnsupportedError{"capacity", fmt.Sprintf("%d kbit/s is not between 1 kbit/s and 100 Gbit/s; request a value in this range", s.Rate), ""}
		case s.Delay < 0 || s.Delay > maxDelay:
			return &UnsupportedError{"latency", fmt.Sprintf("%v is not between 0 and %v; request a value in this range", s.Delay, maxDelay), ""}
		case math.IsNaN(s.Loss) || s.Loss < 0 || s.Loss > 1:
			return &UnsupportedError{"packet_loss", fmt.Sprintf("%v %% is not between 0 and 100 %%; request a value in this range", s.Loss*100), ""}
		}
	}
	return nil
}

func tooManyPairs() error {
	return &UnsupportedError{"different properties for so many pairs", fmt.Sprintf("the vswitch distinguishes at most %d pairs of a link; request the same properties for more of them, or split the link", maxPairs), ""}
}
