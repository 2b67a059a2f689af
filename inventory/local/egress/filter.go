package egress

import (
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Bounds of one node.
const (
	nodeConnections = 1000 // open at the same time
	nodePace        = 200  // new ones a second
	nodeNames       = 300  // packets of questions for names a second
	nodeStream      = 2000 // the same, over TCP
	nodeEchoes      = 20   // pings of the gateway a second
	nodeFragments   = 500  // parts of packets a second
)

// Parts of packets wait for the others in memory of the exit that all nodes
// share, at most that many bytes, and so long at most that what one node may send
// is a small part of it.
const (
	fragmentMemory = 64 << 20
	fragmentTime   = 2 // seconds
)

// meterTime is how long a rate is remembered.
const meterTime = time.Minute

// guards is the set of devices that pass on for us only.
const guards = "guarded"

// Devices of the exit.
const (
	outside    = "outside"
	nodePrefix = "n" // and the node's number
)

// exitTable is the table in the exit of an uplink; blocked are the networks that no
// node reaches. The set it returns is for the addresses of the host.
func exitTable(number uint32, blocked []netip.Prefix, connections uint32) (*ruleset, *nftables.Set) {
	r := newRuleset("patchbay")
	block := r.set(nftables.Set{Name: "blocked", KeyType: nftables.TypeIPAddr, Interval: true}, intervals(blocked)...)
	host := r.set(nftables.Set{Name: "host", KeyType: nftables.TypeIPAddr})
	names, stream, echoes := r.meter("names", true), r.meter("stream", true), r.meter("echoes", true)
	pace, open := r.meter("pace", true), r.meter("open", false)
	parts := r.set(nftables.Set{Name: "parts", KeyType: nftables.TypeIFName, Dynamic: true, Size: 1 << 16, HasTimeout: true, Timeout: meterTime})
	gate := Gateway()

	// Each node is held to its own address before the kernel puts packets together
	// again, so that none adds to what another has sent; its check of the way back
	// (rp_filter) comes later.
	whole := r.chain("whole", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, beforeWhole, nftables.ChainPolicyAccept)
	r.rule(whole, from(outside), accept())
	r.rule(whole, fromElsewhere(), drop())
	r.rule(whole, fragment(), fasterDevice(parts, nodeFragments), drop())

	// This only keeps what cannot be a node's address out of the books. Questions
	// for names are not in the books at all.
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
	// What nodes say of connections (ICMP errors) may be about those of others.
	r.rule(forward, state(expr.CtStateBitINVALID|expr.CtStateBitRELATED), drop())
	for _, no := range []part{notTo(outside), isIn(destination, block), isIn(destination, host)} {
		r.rule(forward, no, refuse())
	}
	r.rule(forward, faster(pace, nodePace), drop())
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

// hostTable is the table in the host, for an uplink's device there and the
// address behind it. The set it returns is for devices whose packets the host
// passes on only because we want those back that answer nodes.
func hostTable(table, device string, behind netip.Addr, blocked []netip.Prefix, connections uint32) (*ruleset, *nftables.Set) {
	r := newRuleset(table)
	block := r.set(nftables.Set{Name: "blocked", KeyType: nftables.TypeIPAddr, Interval: true}, intervals(blocked)...)
	guarded := r.set(nftables.Set{Name: guards, KeyType: nftables.TypeIFName})

	input := r.chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, early, nftables.ChainPolicyAccept)
	r.rule(input, from(device), drop())

	// What comes here may have a new destination by a rule of the host's.
	forward := r.chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, early, nftables.ChainPolicyAccept)
	r.rule(forward, from(device), isNot(source, behind), drop())
	r.rule(forward, from(device), toAny(devicePrefix), drop())
	r.rule(forward, from(device), isIn(destination, block), drop())
	r.rule(forward, from(device), state(expr.CtStateBitNEW), moreInAll(connections), drop())
	r.rule(forward, to(device), state(known), accept())
	r.rule(forward, to(device), drop())
	r.rule(forward, fromOneOf(guarded), notToAny(devicePrefix), drop())

	last := r.chain("last", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
	r.rule(last, is(source, behind), notTo(device), translate())
	after := r.chain("after", nftables.ChainTypeFilter, nftables.ChainHookPostrouting, afterNAT, nftables.ChainPolicyAccept)
	r.keepBlocks(after, notTo(device), behind)
	return r, guarded
}

// beforeWhole is before the kernel's books (conntrack) ask for whole packets.
const beforeWhole nftables.ChainPriority = -450

// afterNAT is after the sources are translated.
const afterNAT nftables.ChainPriority = 110

// early is before the filters of the host, which may let more through.
const early nftables.ChainPriority = -10

func deviceNames(all []string) (elements []nftables.SetElement) {
	for _, d := range slices.Sorted(slices.Values(all)) {
		elements = append(elements, nftables.SetElement{Key: name(d)})
	}
	return elements
}
