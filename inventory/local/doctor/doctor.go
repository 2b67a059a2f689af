package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A Finding is what came of trying one thing.
type Finding struct {
	Name   string // one word
	Action string // what was tried: "mounting an overlay on …"
	OK     bool
	// Needed tells that there are no nodes without it, or not those that the
	// settings ask for. What is not needed is for links between nodes and for
	// their way outside.
	Needed bool
	// Note tells that nothing was tried: the words are for whom they concern.
	Note bool
	// Message say what came of it.
	Message string
	// Remedy says what to do, with the command to type; empty where OK.
	Remedy string
}

// Place is where nodes are to live.
type Place struct {
	// State is the folder of the instance's state; it need not be there yet.
	State string
	// Address and the ports First to Last are where nodes' logins will be; with
	// First 0 no port is tried. An empty address is all of the host's.
	Address     string
	First, Last int
	// Gateway is a port that the gateway must have, 0 for any.
	Gateway int
	// Emulator is what is to make links, empty for what there is; Outbound tells
	// that nodes are to reach the network outside.
	Emulator string
	Outbound bool
	// PIDs is how many processes a node may have at most, 0 where that is not known.
	PIDs int
	// Misfits are settings that do not go together.
	Misfits []string
	// Running tells that the instance runs, and so has ports of its own there.
	Running bool
}

// trouble is why something does not work, and what to do.
type trouble struct{ Words, Remedy string }

// check is one thing to try. Its words are for when it works.
type check struct {
	name, doing string
	needed      bool
	asRoot      bool // cannot be tried without root's rights
	try         func(context.Context, *bench) (words string, t *trouble)
}

func checks() []check {
	return []check{
		{"root", "asking for the rights of root", true, false, tryRoot},
		{"confinement", "installing the filter of system calls that nodes get", true, true, tryConfinement},
		{"tracing", "reading kernel.yama.ptrace_scope", true, false, tryTracing},
		{"namespaces", "starting a process in namespaces of its own, with 65536 ids", true, true, tryNamespaces},
		{"limits", "holding processes to limits of memory, number and time, and ending them", true, true, tryLimits},
		{"overlay", "mounting an overlay on files with shifted owners", true, true, tryOverlay},
		{"disk", "making a file a disk, mounting it, filling it", true, true, tryDisk},
		{"separation", "becoming a user without rights", true, true, trySeparation},
		{"usr", "looking whether /usr can be shared with nodes", true, false, tryUsr},
		{"room", "counting free memory and disk", true, false, tryRoom},
		{"ports", "listening on the ports of nodes", true, false, tryPorts},
		{"clock", "reading the clock", true, false, tryClock},
		{"links", "joining network namespaces by a bridge", false, true, inOwnNetwork("links")},
		{"capacity", "limiting a link's capacity in the kernel (tbf)", false, true, inOwnNetwork("capacity")},
		{"delay", "delaying a link in the kernel (netem)", false, true, inOwnNetwork("delay")},
		{"tunnel", "making a tunnel device, for the program that delays links", false, true, inOwnNetwork("tunnel")},
		{"kernel", "asking how much the kernel has for all nodes and this host together", false, false, tryKernel},
		{"storms", "bounding what circles in rings of links, by nftables", false, true, inOwnNetwork("storms")},
		{"outside", "leading a node to a network outside, past this host", false, true, tryOutside},
		{"tools", "looking which usual programs nodes will lack", false, false, tryTools},
		{"settings", "", false, false, trySettings},
		{"untested", "", false, false, tryNothing},
	}
}

// Examine tries everything, in an order in which reasons come before what
// follows from them. Each finding is handed to progress, which may be nil, as
// soon as it is known. Without root's rights only what can be told without
// them is in the answer.
func Examine(ctx context.Context, place Place, progress func(Finding)) []Finding {
	return examine(ctx, place, checks(), progress)
}

func examine(ctx context.Context, place Place, list []check, progress func(Finding)) []Finding {
	if progress == nil {
		progress = func(Finding) {}
	}
	b := &bench{place: place}
	defer b.clear()
	var findings []Finding
	for _, c := range list {
		if c.asRoot && os.Geteuid() != 0 {
			continue
		}
		f := Finding{Name: c.name, Action: c.doing, Needed: c.needed || place.asks(c.name), Note: c.name == "tools" || c.name == "untested"}
		words, t := c.try(ctx, b)
		if t != nil && place.asks(c.name) {
			t.Remedy = place.instead(c.name, t.Remedy)
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

// CheckNeeded is nil where all that is needed works; else it says what does not, and
// the remedies.
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
