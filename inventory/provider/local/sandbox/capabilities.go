package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A capability is one right of root, and whether root in a node has it.
type capability struct {
	number int
	keep   bool
	why    string
}

// capabilities returns all capabilities. In a node they work only in the node's own
// namespaces, so root of the node can have many of them. The dropped ones would have no
// effect there, or would give access to the agent or to parts of the kernel that users of
// nodes do not need.
func capabilities() []capability {
	const keep, drop = true, false
	return []capability{
		{unix.CAP_CHOWN, keep, "give files to others: tar, dpkg, useradd"},
		{unix.CAP_DAC_OVERRIDE, keep, "root reads and writes all files of the node"},
		{unix.CAP_FOWNER, keep, "chmod of others' files"},
		{unix.CAP_FSETID, keep, "setuid bits kept on files that root writes"},
		{unix.CAP_KILL, keep, "end processes of others"},
		{unix.CAP_SETGID, keep, "su, sudo, sshd, services"},
		{unix.CAP_SETUID, keep, "su, sudo, sshd, services"},
		{unix.CAP_SETPCAP, keep, "services that give up rights themselves"},
		{unix.CAP_NET_BIND_SERVICE, keep, "ports below 1024"},
		{unix.CAP_NET_RAW, keep, "ping, tcpdump, packet generators"},
		{unix.CAP_NET_ADMIN, keep, "addresses, routes, firewalls: experiments are about networks"},
		{unix.CAP_SYS_CHROOT, keep, "chroot: sshd, debootstrap"},
		{unix.CAP_AUDIT_WRITE, keep, "programs that log users in need it"},
		{unix.CAP_SETFCAP, keep, "packages that set capabilities of files, as ping's does"},

		{unix.CAP_SYS_ADMIN, drop, "mounts, namespaces, filters without no_new_privs"},
		{unix.CAP_SYS_PTRACE, drop, "would let root trace the agent, PID 1; debugging a process of the same user needs no capability"},
		{unix.CAP_DAC_READ_SEARCH, drop, "open_by_handle_at; DAC_OVERRIDE reads all files already"},
		{unix.CAP_MKNOD, drop, "devices cannot be made in a user namespace"},
		{unix.CAP_SYS_MODULE, drop, "the kernel's code is the host's"},
		{unix.CAP_SYS_RAWIO, drop, "hardware is the host's"},
		{unix.CAP_SYS_BOOT, drop, "the host's power; a node is restarted by the testbed"},
		{unix.CAP_SYS_TIME, drop, "the clock is the host's"},
		{unix.CAP_SYS_NICE, drop, "only counts for root of the host"},
		{unix.CAP_SYS_RESOURCE, drop, "only counts for root of the host; limits are the testbed's"},
		{unix.CAP_SYS_PACCT, drop, "accounting is the host's"},
		{unix.CAP_SYS_TTY_CONFIG, drop, "consoles are the host's"},
		{unix.CAP_SYSLOG, drop, "the kernel's log is the host's"},
		{unix.CAP_WAKE_ALARM, drop, "wakes the host"},
		{unix.CAP_BLOCK_SUSPEND, drop, "keeps the host awake"},
		{unix.CAP_LINUX_IMMUTABLE, drop, "only counts for root of the host; could keep files from being removed"},
		{unix.CAP_LEASE, drop, "delays other processes that open a file"},
		{unix.CAP_IPC_LOCK, drop, "only counts for root of the host; memory is limited"},
		{unix.CAP_IPC_OWNER, drop, "shared memory of other users: no ordinary program asks for it"},
		{unix.CAP_NET_BROADCAST, drop, "the kernel does not use it"},
		{unix.CAP_AUDIT_CONTROL, drop, "audit is the host's"},
		{unix.CAP_AUDIT_READ, drop, "audit is the host's"},
		{unix.CAP_MAC_ADMIN, drop, "security modules are the host's"},
		{unix.CAP_MAC_OVERRIDE, drop, "security modules are the host's"},
		{unix.CAP_PERFMON, drop, "watching the kernel"},
		{unix.CAP_BPF, drop, "programs in the kernel"},
		{unix.CAP_CHECKPOINT_RESTORE, drop, "choosing process numbers, opening others' mappings"},
	}
}

// dropCapabilities removes all capabilities from this thread, except the kept ones, which stay
// in the permitted, effective and bounding sets. None stays inheritable or ambient:
// programs of root get the bounding set anyway, and programs of other users must get none.
func dropCapabilities() error {
	kept := make(map[int]bool)
	for _, c := range capabilities() {
		kept[c.number] = c.keep
	}
	// The loop includes capabilities of newer kernels. It ends with EINVAL after the last
	// capability of this kernel.
	for n := 0; ; n++ {
		_, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err == nil && !kept[n] {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("bounding set, capability %d: %w", n, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	var sets [2]unix.CapUserData
	for n, keep := range kept {
		if keep {
			sets[n/32].Permitted |= 1 << (n % 32)
		}
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
}
