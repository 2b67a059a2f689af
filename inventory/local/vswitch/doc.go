// Package vswitch is a switch of TAP devices that delays and drops frames, in a
// process without rights.
//
// The Manager (in "up", as root) opens the TAPs and holds them. The relay is a
// process of its own, one for a slice, under its own user id, without
// capabilities, under seccomp: it has the TAPs, the connection to its Manager, and
// nothing else. It ends with that connection. One that dies is replaced by one
// with the same devices and links; what was on its way is lost, and counters
// start again.
//
//	TAP → port → switch → path: loss, queue, rate, delay → port → TAP
//
// In the process a link belongs to one of up to maxLoops loops (loop.go), each a
// goroutine that waits for all its devices and for the next due time in an epoll
// of its own. A port costs no goroutine and no buffer. The switch (lan.go) is
// pure: it is tested on a clock of the test's.
//
// Loss comes first, so that what is lost uses no rate; of a frame to many that
// share a path each receiver loses its own. Then the rate, to the nanosecond and
// without bursts, with up to 50 ms, or 16 KiB if that is more, in front of it; then
// the delay. No frame is early and none overtakes another on its path.
//
// Frames and their headers come from nodes and may be anything: what cannot be
// understood is dropped and counted, and headers are written anew before the
// kernel reads them again. Memory for frames that wait is bounded: 64 MiB a path,
// 256 MiB a process; what does not fit is dropped and counted. What is not in use is given
// back. A port brings at most 256 addresses to the switch, which are forgotten
// after five minutes of silence. Whoever floods takes turns with the others.
//
// # Decisions
//
//   - waiting: it has its own epoll and timer, because behind Go's poller two flooding ports
//     delayed all timers: [loop.arm].
//   - loss before rate: lost frames are chosen first, so that they use no capacity: [path.enter].
//   - learned addresses: 256 a port for five minutes; a further one replaces one of the same port:
//     [maxLearnt].
package vswitch
