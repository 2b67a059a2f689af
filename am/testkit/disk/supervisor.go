package disk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supervisor carries out the watched system calls of a process, as the test decides. Only one
// goroutine uses it.
type supervisor struct {
	listener int // the descriptor from which the kernel's notifications are read
	folder   string
	decide   func(Call) Fault
	calls    int
	log      Log
}

// notification is the kernel's struct seccomp_notif, which describes a system call.
type notification struct {
	id     uint64
	thread uint32
	_      uint32
	call   int32
	_      uint32
	_      uint64
	args   [6]uint64
}

// answer is the kernel's struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// ioctl repeats the call if a signal interrupts it.
func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); e == 0 {
			return nil
		} else if e != unix.EINTR {
			return e
		}
	}
}

// serve handles calls until all processes under the filter have ended.
func (w *supervisor) serve() error {
	defer unix.Close(w.listener)
	for {
		poll := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return fmt.Errorf("cannot wait for calls: %w", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil
		}
		var q notification
		if err := ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); err == unix.ENOENT {
			continue // the process was killed meanwhile
		} else if err != nil {
			return fmt.Errorf("cannot receive a call: %w", err)
		}
		a, reply := w.handle(&q)
		if !reply {
			continue
		}
		a.id = q.id
		if err := ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cannot answer a call: %w", err)
		}
	}
}

// allow is the answer that makes the kernel carry out the call itself.
var allow = answer{flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}

// handle carries out a call as the test decides, logs it, and returns the answer for the kernel. It
// returns false for reply if it has killed the process.
func (w *supervisor) handle(q *notification) (a answer, reply bool) {
	e, fd, err := w.readCall(q)
	if fd >= 0 {
		defer unix.Close(fd)
	}
	switch {
	case err != nil:
		return answer{errno: -int32(unix.ENOTRECOVERABLE)}, true
	case e.Output != "":
		w.log = append(w.log, e)
		return allow, true
	case e.Kind == "":
		return allow, true
	case e.Kind == refused:
		return answer{errno: -int32(unix.ENOSYS)}, true
	}
	w.calls++
	e.N = w.calls
	var f Fault
	if w.decide != nil {
		f = w.decide(e.Call)
	}
	e.do(f.Do, fd, q)
	if f.Errno != 0 && !f.Kill {
		e.Err = f.Errno
	}
	w.log = append(w.log, e)
	switch {
	case f.Kill:
		_ = unix.Kill(process(q.thread), unix.SIGKILL)
		return a, false
	case e.Err != 0:
		return answer{errno: -int32(e.Err)}, true
	}
	return answer{value: int64(e.Done)}, true
}

// readCall reads the arguments of a call. It leaves e.Kind empty if the call is not for a file in
// the folder. fd is this process's copy of the descriptor of the open file, or -1 if there is none.
// The caller must close fd.
func (w *supervisor) readCall(q *notification) (e Event, fd int, err error) {
	kind := kinds[uint32(q.call)]
	switch kind {
	case Rename, Link:
		if e.Path, err = name(q.thread, q.args[0], q.args[1]); err == nil {
			e.To, err = name(q.thread, q.args[2], q.args[3])
		}
	case Remove:
		e.Path, err = name(q.thread, q.args[0], q.args[1])
	default:
		e.Path, _ = os.Readlink(descriptor(q.thread, int32(q.args[0])))
		e.Path = strings.TrimSuffix(e.Path, " (deleted)")
		if kind == Write && int32(q.args[0]) == int32(unix.Stdout) && !w.below(e.Path) {
			output, err := memory(q.thread, q.args[1], q.args[2])
			return Event{Output: string(output)}, -1, err
		}
	}
	if err != nil || !w.below(e.Path) && !w.below(e.To) {
		return Event{}, -1, err
	}
	e.Kind = kind
	switch kind {
	case Rename, Link, Remove:
		e.file = inode(e.Path)
		return e, -1, nil
	case Write:
		if e.Data, err = memory(q.thread, q.args[1], q.args[2]); err != nil {
			return e, -1, err
		}
	case Truncate:
		e.Size = int64(q.args[1])
	}
	return e.open(q)
}

// open copies the descriptor of the call's open file into this process, and returns the copy.
// It adds the file's inode to the event and, for a Write, the position.
func (e Event) open(q *notification) (Event, int, error) {
	pidfd, err := unix.PidfdOpen(process(q.thread), 0)
	if err != nil {
		return e, -1, err
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, int(q.args[0]), 0)
	if err != nil {
		return e, -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return e, fd, err
	}
	e.file = st.Ino
	if uint32(q.call) == unix.SYS_PWRITE64 {
		e.Offset = int64(q.args[3])
	} else if e.Kind == Write {
		e.Offset = writePosition(fd, &st)
	}
	return e, fd, nil
}

// inode returns 0 if the path does not exist.
func inode(path string) uint64 {
	var st unix.Stat_t
	_ = unix.Lstat(path, &st)
	return st.Ino
}

func writePosition(fd int, st *unix.Stat_t) int64 {
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_APPEND != 0 {
		return st.Size
	}
	at, _ := unix.Seek(fd, 0, 1)
	return at
}

// do carries out a portion of the call, and sets Done and Err. fd is a copy of the descriptor of
// the open file.
func (e *Event) do(p Portion, fd int, q *notification) {
	data := e.Data
	switch {
	case p == Half && e.Kind == Write:
		data = data[:len(data)/2]
	case p != Whole:
		return
	}
	var err error
	switch uint32(q.call) {
	case unix.SYS_WRITE:
		e.Done, err = unix.Write(fd, data)
	case unix.SYS_PWRITE64:
		e.Done, err = unix.Pwrite(fd, data, e.Offset)
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC: // only recorded, since no real power fails
	case unix.SYS_FTRUNCATE:
		err = unix.Ftruncate(fd, e.Size)
	case unix.SYS_FALLOCATE:
		err = unix.Fallocate(fd, uint32(q.args[1]), int64(q.args[2]), int64(q.args[3]))
	case unix.SYS_RENAMEAT:
		err = unix.Renameat(unix.AT_FDCWD, e.Path, unix.AT_FDCWD, e.To)
	case unix.SYS_RENAMEAT2:
		err = unix.Renameat2(unix.AT_FDCWD, e.Path, unix.AT_FDCWD, e.To, uint(q.args[4]))
	case unix.SYS_LINKAT:
		err = unix.Linkat(unix.AT_FDCWD, e.Path, unix.AT_FDCWD, e.To, int(q.args[4]))
	case unix.SYS_UNLINKAT:
		err = unix.Unlinkat(unix.AT_FDCWD, e.Path, int(q.args[2]))
	}
	e.Err, _ = err.(unix.Errno)
	e.Done = max(0, e.Done)
}

// descriptor returns the path in /proc of a thread's file descriptor, or of its working
// directory.
func descriptor(thread uint32, fd int32) string {
	if fd == unix.AT_FDCWD {
		return fmt.Sprintf("/proc/%d/cwd", thread)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", thread, fd)
}

// name returns the absolute path of a file argument: dir is the descriptor of a folder, and
// text the address of the path in the thread's memory.
func name(thread uint32, dir, text uint64) (string, error) {
	b, err := memory(thread, text, unix.PathMax)
	if err != nil {
		return "", err
	}
	s, _, _ := bytes.Cut(b, []byte{0})
	path := string(s)
	if !filepath.IsAbs(path) {
		at, err := os.Readlink(descriptor(thread, int32(dir)))
		if err != nil {
			return "", err
		}
		path = filepath.Join(at, path)
	}
	// Resolve links in the folder's path, but not the last element, which may be a link.
	at, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path, nil
	}
	return filepath.Join(at, filepath.Base(path)), nil
}

// memory reads n bytes at an address in a thread's memory, or fewer bytes if the mapped memory
// ends before.
func memory(thread uint32, address, n uint64) ([]byte, error) {
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	// Read page by page: reading stops at the first page that is not mapped.
	page := uint64(os.Getpagesize())
	var remote []unix.RemoteIovec
	for at, left := address, n; left > 0 && len(remote) < 1024; {
		some := min(left, page-at%page)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(at), Len: int(some)})
		at, left = at+some, left-some
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(int(n))
	got, err := unix.ProcessVMReadv(int(thread), local, remote, 0)
	if err != nil {
		return nil, err
	}
	return b[:got], nil
}

func process(thread uint32) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
				return pid
			}
		}
	}
	return int(thread)
}
