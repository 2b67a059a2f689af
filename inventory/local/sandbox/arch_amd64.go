package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// allowedHere are the calls of this architecture alone that nodes may make: the
// old forms of others, and what the kernel asks of the processor. Calls of the
// x32 kind have numbers of their own, from 1<<30 on, and are in no list.
func allowedHere() []uint32 {
	return []uint32{
		unix.SYS_ACCESS,
		unix.SYS_ALARM,
		unix.SYS_ARCH_PRCTL,
		unix.SYS_CHMOD,
		unix.SYS_CHOWN,
		unix.SYS_CREAT,
		unix.SYS_DUP2,
		unix.SYS_EPOLL_CREATE,
		unix.SYS_EPOLL_WAIT,
		unix.SYS_EVENTFD,
		unix.SYS_FORK,
		unix.SYS_FUTIMESAT,
		unix.SYS_GETDENTS,
		unix.SYS_GETPGRP,
		unix.SYS_INOTIFY_INIT,
		unix.SYS_LCHOWN,
		unix.SYS_LINK,
		unix.SYS_LSTAT,
		unix.SYS_MKDIR,
		unix.SYS_MKNOD,
		unix.SYS_OPEN,
		unix.SYS_PAUSE,
		unix.SYS_PIPE,
		unix.SYS_POLL,
		unix.SYS_READLINK,
		unix.SYS_RENAME,
		unix.SYS_RMDIR,
		unix.SYS_SELECT,
		unix.SYS_SIGNALFD,
		unix.SYS_STAT,
		unix.SYS_SYMLINK,
		unix.SYS_TIME,
		unix.SYS_UNLINK,
		// The kernel itself puts these two into programs that the host traces.
		unix.SYS_UPROBE,
		unix.SYS_URETPROBE,
		unix.SYS_UTIME,
		unix.SYS_UTIMES,
		unix.SYS_VFORK,
	}
}

// forbiddenHere are the calls of this architecture alone that are refused.
func forbiddenHere() []uint32 {
	return []uint32{
		unix.SYS_IOPERM,
		unix.SYS_IOPL,
	}
}

// vswitchAllowedHere are the calls of this architecture alone that the vswitch may make.
func vswitchAllowedHere() []uint32 { return []uint32{unix.SYS_EPOLL_WAIT} }
