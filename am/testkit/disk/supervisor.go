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

// supervisor answers the kernel about the system calls of a process. One goroutine owns
// it.
type supervisor struct {
	listener int
	folder   string
	decide   func(Call) Fault
	calls    int
	log      Log
}

// question and answer are the kernel's seccomp_notif and seccomp_notif_resp.
type question struct {
	id     uint64
	thread uint32
	_      uint32
	call   int32
	_      uint32
	_      uint64
	args   [6]uint64
}

type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// ioctl is ioctl(2), repeated when a signal interrupts it.
func ioctl(fd int, what uintptr, arg unsafe.Pointer) error {
	for {
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), what, uintptr(arg)); e == 0 {
			return nil
		} else if e != unix.EINTR {
			return e
		}
	}
}

// serve answers until all processes under the filter have ended.
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
		var q question
		if err := ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); err == unix.ENOENT {
			continue // it was killed meanwhile
		} else if err != nil {
			return fmt.Errorf("cannot take a call: %w", err)
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

var goOn = answer{flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}

// handle carries out a call, or the decided fault instead. reply is false if the
// process has ended.
func (w *supervisor) handle(q *question) (a answer, reply bool) {
	e, fd, err := w.readCall(q)
	if fd >= 0 {
		defer unix.Close(fd)
	}
	switch {
	case err != nil:
		return answer{errno: -int32(unix.ENOTRECOVERABLE)}, true
	case e.Said != "":
		w.log = append(w.log, e)
		return goOn, true
	case e.Kind == "":
		return goOn, true
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

// readCall reads the arguments of a call. Kind is empty if the call is not watched. The
// descriptor, if not -1, is this process's own of the open file.
func (w *supervisor) readCall(q *question) (e Event, fd int, err error) {
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
			said, err := memory(q.thread, q.args[1], q.args[2])
			return Event{Said: string(said)}, -1, err
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

// open gets the open file of the call.
func (e Event) open(q *question) (Event, int, error) {
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
		e.Offset = place(fd, &st)
	}
	return e, fd, nil
}

// inode returns the inode of a path; 0 if it does not exist.
func inode(path string) uint64 {
	var st unix.Stat_t
	_ = unix.Lstat(path, &st)
	return st.Ino
}

// place returns the position of the next write of an open file.
func place(fd int, st *unix.Stat_t) int64 {
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_APPEND != 0 {
		return st.Size
	}
	at, _ := unix.Seek(fd, 0, 1)
	return at
}

// do carries out a portion of the call.
func (e *Event) do(p Portion, fd int, q *question) {
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
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC: // the log has it, and no power will be cut
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

// name returns the path that a thread means by a folder's descriptor and a text.
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
	// The folder's own name is real; what is in it may be a link.
	at, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path, nil
	}
	return filepath.Join(at, filepath.Base(path)), nil
}

// memory reads n bytes of a thread's memory, or those up to the end of the mapping.
func memory(thread uint32, from, n uint64) ([]byte, error) {
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	// A page for each piece: reading stops at the first piece that is not there.
	page := uint64(os.Getpagesize())
	var there []unix.RemoteIovec
	for at, left := from, n; left > 0 && len(there) < 1024; {
		some := min(left, page-at%page)
		there = append(there, unix.RemoteIovec{Base: uintptr(at), Len: int(some)})
		at, left = at+some, left-some
	}
	here := []unix.Iovec{{Base: &b[0]}}
	here[0].SetLen(int(n))
	got, err := unix.ProcessVMReadv(int(thread), here, there, 0)
	if err != nil {
		return nil, err
	}
	return b[:got], nil
}

// process returns the process of a thread.
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
