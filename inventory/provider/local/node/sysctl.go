package node

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// writableSysctls are the files and folders below /proc/sys that nodes may write.
var writableSysctls = []string{
	"fs/mqueue",
	"kernel/msgmax", "kernel/msgmnb", "kernel/msgmni", "kernel/sem",
	"kernel/shm_rmid_forced", "kernel/shmall", "kernel/shmmax", "kernel/shmmni",
	"net",
}

// readOnlySysctls are exceptions from writableSysctls; doc.go explains the rule.
var readOnlySysctls = []string{
	"net/core/optmem_max",
	"net/ipv4/ipfrag_high_thresh", "net/ipv4/ipfrag_low_thresh",
	"net/ipv4/neigh", "net/ipv6/neigh", // incomplete: ip ntable can still set these with netlink
	"net/ipv4/tcp_max_tw_buckets",
	"net/ipv4/xfrm4_gc_thresh", "net/ipv6/xfrm6_gc_thresh",
	"net/ipv6/ip6frag_high_thresh", "net/ipv6/ip6frag_low_thresh",
	"net/ipv6/route/gc_thresh", "net/ipv6/route/max_size",
	"net/netfilter/nf_conntrack_frag6_high_thresh", "net/netfilter/nf_conntrack_frag6_low_thresh",
	"net/netfilter/nf_hooks_lwtunnel", // applies to all networks of the host, and cannot be unset
}

// limitSysctls makes /proc/sys read-only, except for the files that nodes may write.
func limitSysctls(root int) error {
	sysctls, err := openWithin(root, "proc/sys", true) // opened before other mounts cover it
	if err != nil {
		return err
	}
	defer unix.Close(sysctls)
	if err := mountSysctl(root, sysctls, ".", unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	for _, name := range writableSysctls {
		if err := mountSysctl(root, sysctls, name, 0); err != nil {
			return err
		}
	}
	for _, name := range readOnlySysctls {
		if err := mountSysctl(root, sysctls, name, unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	// If nf_conntrack_frag6_* are missing now, the node could still make the kernel load the
	// module that provides them. So the whole folder is read-only then.
	if unix.Faccessat(sysctls, "net/netfilter/nf_conntrack_frag6_high_thresh", unix.F_OK, 0) == unix.ENOENT {
		return mountSysctl(root, sysctls, "net/netfilter", unix.MOUNT_ATTR_RDONLY)
	}
	return nil
}

// mountSysctl mounts the file or folder name of the open folder sysctls over the same name in
// the node's /proc/sys. It skips names that this kernel lacks.
func mountSysctl(root, sysctls int, name string, attributes uint64) error {
	mount, err := cloneMountWithin(sysctls, name)
	if err == unix.ENOENT {
		return nil
	}
	if err == nil {
		err = limitMount(mount, attributes, nil)
	}
	if err == nil {
		err = moveMountWithin(mount, root, path.Join("proc/sys", name), false)
	}
	if err != nil {
		return fmt.Errorf("cannot limit the sysctl %s: %w", name, err)
	}
	return nil
}
