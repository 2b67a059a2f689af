package egress

import (
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	nodeConnections = 1000 // open at the same time
	nodeRate        = 200  // new connections per second
	nodeNames       = 300  // packets of DNS queries over UDP per second
	nodeStream      = 2000 // packets of DNS queries over TCP per second
	nodeEchoes      = 20   // pings of the gateway per second
	nodeFragments   = 500  // IP fragments per second
)

// Fragments wait for reassembly in memory that all nodes share. These values limit the
// memory and the waiting time, so that one node's fragments fill only a small part.
const (
	fragmentMemory = 64 << 20
	fragmentTime   = 2 // seconds
)

// meterTime is how long a rate is remembered.
const meterTime = time.Minute

// guards is the name of an nftables set with the devices on which only Routers have
// switched on forwarding. Only replies to nodes may be forwarded from these devices.
const guards = "guarded"

// Devices of the egress namespace.
const (
	outside    = "outside"
	nodePrefix = "n" // followed by the node's number
)

// exitTable returns the nftables table of the egress namespace. number is the number of
// the uplink, blocked are the networks that no node may reach, and connections limits
// the open connections of all nodes. The caller must fill the returned set with the
// host's addresses.
func exitTable(number uint32, blocked []netip.Prefix, connections uint32) (*ruleset, *nftables.Set) {
	r := newRuleset("patchbay")
	block := r.set(nftables.Set{Name: "blocked", KeyType: nftables.TypeIPAddr, Interval: true}, intervals(blocked)...)
	host := r.set(nftables.Set{Name: "host", KeyType: nftables.TypeIPAddr})
	names, stream, echoes := r.meter("names", true), r.meter("stream", true), r.meter("echoes", true)
	rate, open := r.meter("pace", true), r.meter("open", false)
	parts := r.set(nftables.Set{Name: "parts", KeyType: nftables.TypeIFName, Dynamic: true, Size: 1 << 16, HasTimeout: true, Timeout: meterTime})
	gate := Gateway()

	// Source addresses are checked before reassembly, so that no node can add fragments
	// to another node's packet. The kernel's own check (rp_filter) comes later.
	whole := r.chain("whole", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, beforeWhole, nftables.ChainPolicyAccept)
	r.rule(whole, from(outside), accept())
	r.rule(whole, fromElsewhere(), drop())
	r.rule(whole, fragment(), fasterDevice(parts, nodeFragments), drop())

	// This keeps invalid source addresses out of conntrack. DNS queries are not in
	// conntrack at all.
	first := r.chain("first", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, *nftables.ChainPriorityRaw, nftables.ChainPolicyAccept)
	r.rule(first, notFrom(outside), isOutside(source, NodeNetwork()), drop())
	r.rule(first, notFrom(outside), is(destination, gate), untrack())
	answers := r.chain("answers", nftables.ChainTypeFilter, nftables.ChainHookOutput, *nftables.ChainPriorityRaw, nftables.ChainPolicyAccept)
	r.rule(answers, is(source, gate), untrack())

	input := r.chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, *nftables.ChainPriorityFilter, nftables.ChainPolicyDrop)
	r.rule(input, from(outside), drop())
	r.rule(input, isNot(destination, gate), drop())
	ask := func(kind byte, meter *nftables.Set, rate uint64) {
		r.rule(input, protocol(kind), toPort(domain), faster(meter, rate), drop())
		r.rule(input, protocol(kind), toPort(domain), accept())
	}
	ask(unix.IPPROTO_UDP, names, nodeNames)
	ask(unix.IPPROTO_TCP, stream, nodeStream)
	r.rule(input, echo(), faster(echoes, nodeEchoes), drop())
	r.rule(input, echo(), accept())
	r.rule(input, notFrom(outside), refuse())

	forward := r.chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, *nftables.ChainPriorityFilter, nftables.ChainPolicyDrop)
	r.rule(forward, state(expr.CtStateBitESTABLISHED), accept())
	r.rule(forward, from(outside), state(known), accept())
	r.rule(forward, from(outside), drop())
	// ICMP errors from nodes may refer to connections of other nodes.
	r.rule(forward, state(expr.CtStateBitINVALID|expr.CtStateBitRELATED), drop())
	for _, no := range []part{notTo(outside), isIn(destination, block), isIn(destination, host)} {
		r.rule(forward, no, refuse())
	}
	r.rule(forward, faster(rate, nodeRate), drop())
	r.rule(forward, more(open, nodeConnections), drop())
	r.rule(forward, moreInAll(connections), drop())
	for _, yes := range []part{protocol(unix.IPPROTO_TCP), protocol(unix.IPPROTO_UDP), echo()} {
		r.rule(forward, yes, accept())
	}

	last := r.chain("last", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
	_, own := uplink(number)
	r.translateNodes(last, to(outside), own.Addr(), number)
	return r, host
}

// hostTable returns the nftables table of the host. device is the uplink's device on the
// host, and exit the address of the uplink's other end. The caller must fill the returned
// set, which is named by guards.
func hostTable(table, device string, exit netip.Addr, blocked []netip.Prefix, connections uint32) (*ruleset, *nftables.Set) {
	r := newRuleset(table)
	block := r.set(nftables.Set{Name: "blocked", KeyType: nftables.TypeIPAddr, Interval: true}, intervals(blocked)...)
	guarded := r.set(nftables.Set{Name: guards, KeyType: nftables.TypeIFName})

	input := r.chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, early, nftables.ChainPolicyAccept)
	r.rule(input, from(device), drop())

	// The destination is checked again here, because a rule of the host may have changed
	// it (DNAT).
	forward := r.chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, early, nftables.ChainPolicyAccept)
	r.rule(forward, from(device), isNot(source, exit), drop())
	r.rule(forward, from(device), toAny(devicePrefix), drop())
	r.rule(forward, from(device), isIn(destination, block), drop())
	r.rule(forward, from(device), state(expr.CtStateBitNEW), moreInAll(connections), drop())
	r.rule(forward, to(device), state(known), accept())
	r.rule(forward, to(device), drop())
	r.rule(forward, fromOneOf(guarded), notToAny(devicePrefix), drop())

	last := r.chain("last", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
	r.rule(last, is(source, exit), notTo(device), translate())
	after := r.chain("after", nftables.ChainTypeFilter, nftables.ChainHookPostrouting, afterNAT, nftables.ChainPolicyAccept)
	r.keepBlocks(after, notTo(device), exit)
	return r, guarded
}

// beforeWhole is the priority of chains that run before conntrack's reassembly of
// fragments.
const beforeWhole nftables.ChainPriority = -450

// afterNAT is the priority of chains that run after source translation.
const afterNAT nftables.ChainPriority = 110

// early is the priority of chains that run before the host's own filters.
const early nftables.ChainPriority = -10

func deviceNames(all []string) (elements []nftables.SetElement) {
	for _, d := range slices.Sorted(slices.Values(all)) {
		elements = append(elements, nftables.SetElement{Key: name(d)})
	}
	return elements
}
