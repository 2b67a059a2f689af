package sandbox

import "golang.org/x/sys/unix"

// relayAllowed are the calls that the relay may make whatever the arguments are:
// what the Go runtime goes on doing, and what open devices and the connection to
// its Keeper need.
func relayAllowed() []uint32 {
	return []uint32{
		// What is open: TAPs, the connection.
		unix.SYS_CLOSE,
		unix.SYS_PREAD64, // the runtime looks at its processor limit
		unix.SYS_READ,
		unix.SYS_RECVMSG,
		unix.SYS_SENDMSG,
		unix.SYS_WRITE,

		// Waiting.
		unix.SYS_CLOCK_NANOSLEEP,
		unix.SYS_EPOLL_CTL,
		unix.SYS_EPOLL_PWAIT,
		unix.SYS_FUTEX,
		unix.SYS_NANOSLEEP,
		unix.SYS_RESTART_SYSCALL,
		unix.SYS_SCHED_YIELD,
		unix.SYS_TIMERFD_SETTIME,

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

		// Asking.
		unix.SYS_CLOCK_GETTIME,
		unix.SYS_GETPID,
		unix.SYS_GETRANDOM,
		unix.SYS_GETTID,
		unix.SYS_GETTIMEOFDAY,
	}
}

// relayExamined are the calls that depend on the arguments; pid is the relay's
// process.
func relayExamined(pid int) []rule {
	return append(ownThreads(pid), rule{unix.SYS_FCNTL, argument(1, oneOf(
		[]uint32{unix.F_DUPFD_CLOEXEC, unix.F_GETFL, unix.F_SETFL}, allow(), refuse(unix.EPERM)))})
}

// relayFilter is the filter of the relay, process pid.
func relayFilter(pid int) block {
	return narrow(relayExamined(pid), append(relayAllowed(), relayAllowedHere()...), gatewayKilled())
}
