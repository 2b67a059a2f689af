package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A Finding is the result of one check.
type Finding struct {
	Name   string // one word
	Action string // what was tried: "mounting an overlay on …"
	OK     bool
	// Needed means that every node needs the tested feature, or that the settings
	// request it.
	Needed bool
	// Note means that the message is only a hint.
	Note bool
	// Message is the result.
	Message string
	// Remedy is an instruction with the command to type; empty if OK.
	Remedy string
}

// Place describes where nodes will run.
type Place struct {
	// State is the folder of the instance's state; it need not exist yet.
	State string
	// Address and the ports First to Last are for the endpoints of nodes. If First is
	// 0, ports are not tested. An empty address means all addresses of the host.
	Address     string
	First, Last int
	// Gateway is the port of the gateway, or 0 for any.
	Gateway int
	// Emulator is the emulator in the settings, or empty for any. Outbound means that
	// nodes must reach the outside network.
	Emulator string
	Outbound bool
	// PIDs is the maximum number of processes of a node, or 0 if unknown.
	PIDs int
	// Conflicts describe settings that conflict, see local.Settings.Conflicts.
	Conflicts []string
	// Running means that the testbed runs, so it uses some of the ports itself.
	Running bool
}

type trouble struct{ Words, Remedy string }

// check is one test. try returns the message of a success, or the trouble.
type check struct {
	name, doing string
	needed      bool
	asRoot      bool // needs root
	try         func(context.Context, *resources) (words string, t *trouble)
}

func checks() []check {
	return []check{
		{"root", "checking for root", true, false, tryRoot},
		{"confinement", "installing the filter of system calls that nodes get", true, true, tryConfinement},
		{"tracing", "reading kernel.yama.ptrace_scope", true, false, tryTracing},
		{"namespaces", "starting a process in namespaces of its own, with 65536 ids", true, true, tryNamespaces},
		{"limits", "limiting memory, number and processor time of processes, and ending them", true, true, tryLimits},
		{"overlay", "mounting an overlay on files with shifted owners", true, true, tryOverlay},
		{"disk", "mounting a file as a disk and filling it", true, true, tryDisk},
		{"separation", "becoming a user without rights", true, true, trySeparation},
		{"usr", "checking whether /usr can be shared with nodes", true, false, tryUsr},
		{"room", "counting free memory and disk", true, false, tryRoom},
		{"ports", "listening on the ports of nodes", true, false, tryPorts},
		{"clock", "reading the clock", true, false, tryClock},
		{"links", "connecting network namespaces by a bridge", false, true, inOwnNetwork("links")},
		{"capacity", "limiting a link's capacity in the kernel (tbf)", false, true, inOwnNetwork("capacity")},
		{"delay", "delaying a link in the kernel (netem)", false, true, inOwnNetwork("delay")},
		{"tunnel", "making a tunnel device, for the switch process that delays links", false, true, inOwnNetwork("tunnel")},
		{"kernel", "reading the kernel's limits for all nodes and this host together", false, false, tryKernel},
		{"storms", "limiting broadcast storms in loops of links, by nftables", false, true, inOwnNetwork("storms")},
		{"outside", "connecting a node to an outside network", false, true, tryOutside},
		{"tools", "checking which common programs nodes will lack", false, false, tryTools},
		{"settings", "", false, false, trySettings},
		{"untested", "", false, false, listUntested},
	}
}

// Examine runs all checks. Examine passes each finding to progress, if that is not nil,
// as soon as it is known. Without root it runs only the checks that do not need root.
func Examine(ctx context.Context, place Place, progress func(Finding)) []Finding {
	return examine(ctx, place, checks(), progress)
}

// examine runs the checks in list, and returns what they found. It calls progress, if not nil, after each
// check.
func examine(ctx context.Context, place Place, list []check, progress func(Finding)) []Finding {
	if progress == nil {
		progress = func(Finding) {}
	}
	b := &resources{place: place}
	defer b.clear()
	var findings []Finding
	for _, c := range list {
		if c.asRoot && os.Geteuid() != 0 {
			continue
		}
		f := Finding{Name: c.name, Action: c.doing, Needed: c.needed || place.requests(c.name), Note: c.name == "tools" || c.name == "untested"}
		words, t := c.try(ctx, b)
		if t != nil && place.requests(c.name) {
			t.Remedy = place.addAlternative(c.name, t.Remedy)
		}
		if t != nil {
			f.Message, f.Remedy = t.Words, t.Remedy
		} else {
			f.OK, f.Message = true, words
		}
		findings = append(findings, f)
		progress(f)
	}
	return findings
}

// CheckNeeded returns nil if all needed checks passed, and otherwise an error with the
// failed ones and their remedies.
func CheckNeeded(findings []Finding) error {
	var b strings.Builder
	for _, f := range findings {
		if f.Needed && !f.OK {
			fmt.Fprintf(&b, "\n%s: %s", f.Name, f.Message)
			if f.Remedy != "" {
				fmt.Fprintf(&b, "; %s", f.Remedy)
			}
		}
	}
	switch {
	case len(findings) == 0:
		return errors.New("this host was not examined")
	case b.Len() > 0:
		return fmt.Errorf("this host cannot run nodes:%s", b.String())
	}
	return nil
}
