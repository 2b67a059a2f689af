// Package vswitch is a switch of TAP devices that delays and drops frames, in a process
// without rights.
//
// It makes links that the kernel alone cannot make. It connects TAP devices, and delays, drops
// and rate-limits frames, as the paths of the link say.
//
//	TAP -> port -> switch -> path: loss, queue, rate, delay -> port -> TAP
//
// The Manager, in "up" as root, opens the TAPs and holds them. The switch process, one for
// each slice, has its own user id, no capabilities, and a seccomp filter. It holds the TAPs
// and the socket to its Manager, and ends when that socket is closed. If the process dies, the
// Manager starts another one with the same devices and links; frames in flight are lost, and
// counters restart.
//
// A link belongs to one of up to maxLoops loops (loop.go). Each loop is a goroutine. It
// waits in one epoll for all its devices, and for the time at which the next frame must
// be sent. A port needs no goroutine and no buffer. The switch itself (lan.go) reads no clock,
// so tests can choose the time.
//
// On a path, loss comes first, so that lost frames use no capacity. If a frame goes to several
// ports of a path, a random choice at each port decides whether the frame is lost there. Then
// comes the rate, exact to the nanosecond and without bursts, behind a queue of up to 50 ms,
// or 16 KiB if that is more. The delay comes last. No frame is early, and none overtakes
// another on its path.
//
// Frames and their headers come from nodes and are untrusted. Invalid frames are
// dropped and counted, and headers are rewritten before the kernel reads them again.
// Memory for waiting frames is limited to 64 MiB a path and 256 MiB a process; further
// frames are dropped and counted. Unused memory is released. The switch learns at most
// 256 addresses of a port, and forgets them after five minutes of silence. Devices take
// turns, so a flood does not starve others.
//
// # Decisions
//
//   - waiting: each loop has its own epoll and timer, because in the Go runtime's poller two
//     flooding ports delayed all timers: [loop.arm].
//   - loss before rate: lost frames are chosen first, so that they use no capacity:
//     [path.enqueue].
package vswitch
