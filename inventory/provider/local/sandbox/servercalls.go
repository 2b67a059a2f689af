package sandbox

import "golang.org/x/sys/unix"

// serverAllowed returns the calls that the gateway and the vswitch may make with any
// arguments: calls that the Go runtime needs, and calls on open descriptors. No such call
// takes a path.
func serverAllowed() []uint32 {
	return []uint32{
		// Open descriptors.
		unix.SYS_CLOSE,
		unix.SYS_PREAD64, // the runtime reads its processor limit
		unix.SYS_READ,
		unix.SYS_RECVMSG,
		unix.SYS_WRITE,

		// Waiting.
		unix.SYS_CLOCK_NANOSLEEP,
		unix.SYS_EPOLL_CTL,
		unix.SYS_EPOLL_PWAIT,
		unix.SYS_FUTEX,
		unix.SYS_NANOSLEEP,
		unix.SYS_RESTART_SYSCALL,
		unix.SYS_SCHED_YIELD,

		// Threads, memory, signals to itself.
		unix.SYS_EXIT,
		unix.SYS_EXIT_GROUP,
		unix.SYS_MADVISE,
		unix.SYS_MUNMAP,
		unix.SYS_RSEQ,
		unix.SYS_RT_SIGACTION,
		unix.SYS_RT_SIGPROCMASK,
		unix.SYS_RT_SIGRETURN,
		unix.SYS_SCHED_GETAFFINITY,
		unix.SYS_SET_ROBUST_LIST,
		unix.SYS_SIGALTSTACK,

		// Queries.
		unix.SYS_CLOCK_GETTIME,
		unix.SYS_GETPID,
		unix.SYS_GETRANDOM,
		unix.SYS_GETTID,
		unix.SYS_GETTIMEOFDAY,
	}
}

// gatewayAllowed returns the other calls that the gateway may make with any arguments, for
// open sockets, pipes and terminals. It has no calls that open files or sockets, because the
// gateway receives its listeners and connections from the Manager. So an attacker that
// controls the gateway cannot open any.
func gatewayAllowed() []uint32 {
	return []uint32{
		unix.SYS_ACCEPT4,
		unix.SYS_DUP,
		unix.SYS_DUP3,
		unix.SYS_EPOLL_CREATE1,
		unix.SYS_EVENTFD2,
		unix.SYS_FSTAT,
		unix.SYS_GETEGID,
		unix.SYS_GETEUID,
		unix.SYS_GETGID,
		unix.SYS_GETPEERNAME,
		unix.SYS_GETSOCKNAME,
		unix.SYS_GETSOCKOPT,
		unix.SYS_GETUID,
		unix.SYS_PIPE2,
		unix.SYS_READV,
		unix.SYS_SENDFILE,
		unix.SYS_SHUTDOWN,
		unix.SYS_SPLICE,
		unix.SYS_UNAME,
		unix.SYS_WRITEV,
	}
}

// vswitchAllowed returns the calls to answer the Manager and to set timers.
func vswitchAllowed() []uint32 {
	return []uint32{unix.SYS_SENDMSG, unix.SYS_TIMERFD_SETTIME}
}

// serverKilled returns calls that only an attacker makes. The calls that are forbidden in
// nodes kill server processes, too.
func serverKilled() []uint32 {
	return []uint32{
		unix.SYS_CHROOT,
		unix.SYS_EXECVE,
		unix.SYS_EXECVEAT,
		unix.SYS_PERSONALITY,
		unix.SYS_PIDFD_GETFD,
		unix.SYS_PROCESS_VM_READV,
		unix.SYS_PROCESS_VM_WRITEV,
		unix.SYS_PTRACE,
	}
}

// gatewayExamined returns the rules for calls that the gateway may make with some arguments only.
func gatewayExamined(pid int) []rule {
	no := refuse(unix.EPERM)
	only := func(i uint32, values ...uint32) block { return argument(i, oneOf(values, allow(), no)) }
	return append(ownThreads(pid), []rule{
		// Not F_SETOWN, F_SETLEASE and F_NOTIFY, which make the kernel send signals.
		{unix.SYS_FCNTL, only(1, unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD,
			unix.F_GETFL, unix.F_SETFL, unix.F_GETPIPE_SZ, unix.F_SETPIPE_SZ)},
		// The size of a terminal, and the test for a terminal.
		{unix.SYS_IOCTL, only(1, unix.TIOCGWINSZ, unix.TIOCSWINSZ, unix.TIOCGPTN)},
		// A listener that was shut down could connect with this flag.
		{unix.SYS_SENDMSG, argument(2, branch(ifAnyBit, unix.MSG_FASTOPEN, no, allow()))},
		// The options that the net package sets on TCP connections.
		{unix.SYS_SETSOCKOPT, argument(1, branch(ifEqual, unix.SOL_SOCKET,
			only(2, unix.SO_KEEPALIVE, unix.SO_LINGER, unix.SO_RCVBUF, unix.SO_SNDBUF),
			branch(ifEqual, unix.IPPROTO_TCP,
				only(2, unix.TCP_NODELAY, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_USER_TIMEOUT),
				no)))},
	}...)
}

// ownThreads returns the rules that let a server process have threads, but no processes and no new code.
func ownThreads(pid int) []rule {
	no := refuse(unix.EPERM)
	notExecutable := argument(2, branch(ifAnyBit, unix.PROT_EXEC, no, allow()))
	return []rule{
		// Threads, but no processes.
		{unix.SYS_CLONE, argument(0, branch(ifAnyBit, newSpaces, no,
			branch(ifAnyBit, unix.CLONE_THREAD, allow(), no)))},
		// The runtime preempts its threads by signals.
		{unix.SYS_TGKILL, argument(0, branch(ifEqual, uint32(pid), allow(), no))},
		{unix.SYS_MMAP, notExecutable},
		{unix.SYS_MPROTECT, notExecutable},
		// The runtime names its areas of memory if GODEBUG requests that.
		{unix.SYS_PRCTL, argument(0, branch(ifEqual, unix.PR_SET_VMA, allow(), no))},
	}
}

func gatewayFilter(pid int) block {
	return serverFilter(gatewayExamined(pid), serverKilled(), serverAllowed(), gatewayAllowed())
}

func vswitchExamined(pid int) []rule {
	return append(ownThreads(pid), rule{unix.SYS_FCNTL, argument(1, oneOf(
		[]uint32{unix.F_DUPFD_CLOEXEC, unix.F_GETFL, unix.F_SETFL}, allow(), refuse(unix.EPERM)))})
}

func vswitchFilter(pid int) block {
	return serverFilter(vswitchExamined(pid), serverKilled(), serverAllowed(), vswitchAllowed(), vswitchAllowedHere())
}
