package sandbox

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// A block is a part of a filter that always ends in a return. Blocks are assembled from
// the end to the start, so a jump needs only the length of the block that it skips.
type block []unix.SockFilter

// Offsets in struct seccomp_data. Filters read only the low half of an argument, because
// all compared arguments are int or unsigned int, and the kernel also ignores their high
// half. On both architectures the low half is at the lower address.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	codeLoad      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	codeReturn    = unix.BPF_RET | unix.BPF_K
	codeJump      = unix.BPF_JMP | unix.BPF_JA
	ifEqual       = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAtLeast     = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	ifAnyBit      = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	longestBranch = 255
)

// answer returns a block that ends the filter with v, a SECCOMP_RET_ value. allow, kill and
// refuse return such blocks.
func answer(v uint32) block { return block{{Code: codeReturn, K: v}} }

func allow() block              { return answer(unix.SECCOMP_RET_ALLOW) }
func kill() block               { return answer(unix.SECCOMP_RET_KILL_PROCESS) }
func refuse(e unix.Errno) block { return answer(unix.SECCOMP_RET_ERRNO | uint32(e)) }

// load loads a field of struct seccomp_data for the conditions of b.
func load(off uint32, b block) block {
	return append(block{{Code: codeLoad, K: off}}, b...)
}

// argument loads argument i, counted from 0, for the conditions of b.
func argument(i uint32, b block) block { return load(offArgs+8*i, b) }

// branch returns a block that compares the loaded value with v. It continues with match if
// the condition holds, and otherwise with mismatch. The value stays loaded.
func branch(condition uint16, v uint32, match, mismatch block) block {
	b := make(block, 0, 2+len(mismatch)+len(match))
	if len(mismatch) <= longestBranch {
		b = append(b, unix.SockFilter{Code: condition, K: v, Jt: uint8(len(mismatch))})
	} else {
		b = append(b, unix.SockFilter{Code: condition, K: v, Jf: 1},
			unix.SockFilter{Code: codeJump, K: uint32(len(mismatch))})
	}
	return append(append(b, mismatch...), match...)
}

func oneOf(values []uint32, match, mismatch block) block {
	b := mismatch
	for _, v := range values {
		b = branch(ifEqual, v, match, b)
	}
	return b
}

type rule struct {
	call uint32
	then block
}

func rulesFor(decision block, calls ...[]uint32) []rule {
	var rules []rule
	for _, c := range calls {
		for _, call := range c {
			rules = append(rules, rule{call, decision})
		}
	}
	return rules
}

// filter returns the program that decides by rules, which may have any order. fallback is the decision for
// calls without a rule. A call of another architecture kills the process.
func filter(rules []rule, fallback block) block {
	rules = slices.SortedFunc(slices.Values(rules), func(a, b rule) int { return cmp.Compare(a.call, b.call) })
	// Neighbouring calls with equal rules become one range.
	ranges := []rule{{0, fallback}}
	from := func(call uint32, then block) {
		last := &ranges[len(ranges)-1]
		switch {
		case slices.Equal(last.then, then):
		case last.call == call:
			last.then = then
		default:
			ranges = append(ranges, rule{call, then})
		}
	}
	for i, r := range rules {
		from(r.call, r.then)
		if i+1 == len(rules) || rules[i+1].call != r.call+1 {
			from(r.call+1, fallback)
		}
	}
	return load(offArch, branch(ifEqual, auditArch, load(offNumber, tree(ranges)), kill()))
}

// tree returns a binary search for the range that contains the loaded number. A range
// starts at its call, and ends before the call of the next range.
func tree(ranges []rule) block {
	if len(ranges) == 1 {
		return ranges[0].then
	}
	half := len(ranges) / 2
	return branch(ifAtLeast, ranges[half].call, tree(ranges[half:]), tree(ranges[:half]))
}

// serverFilter returns the filter of a server process: the gateway or the vswitch. A rule in
// rules decides first. Permitted calls succeed. Deadly calls, and calls that are forbidden in
// nodes, kill the process. Other calls that nodes may make fail with EPERM, and all further
// calls with ENOSYS.
func serverFilter(rules []rule, deadly []uint32, permitted ...[]uint32) block {
	settled := make(map[uint32]bool)
	for _, r := range rules {
		settled[r.call] = true
	}
	// The first rule for a call decides.
	add := func(then block, calls ...[]uint32) {
		for _, r := range rulesFor(then, calls...) {
			if !settled[r.call] {
				settled[r.call] = true
				rules = append(rules, r)
			}
		}
	}
	add(allow(), permitted...)
	add(kill(), deadly, forbidden(), forbiddenHere())
	add(refuse(unix.EPERM), allowed, allowedHere())
	for _, r := range examined() {
		add(refuse(unix.EPERM), []uint32{r.call})
	}
	return filter(rules, refuse(unix.ENOSYS))
}
