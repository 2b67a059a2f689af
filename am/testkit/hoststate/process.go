package hoststate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// kernelThread is the flag in /proc/PID/stat that marks threads of the kernel.
const kernelThread = 0x00200000

// process is a process on the host, but not a kernel thread.
type process struct {
	pid, parent int
	started     string
	command     string
	ours        bool // it belongs to the test
	self        bool // it is this process
}

func (p *process) path(elems ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(p.pid)}, elems...)...)
}

func (k *taker) takeProcesses() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	byID := make(map[int]*process)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p := read(pid); p != nil {
			byID[pid] = p
			k.processes = append(k.processes, p)
		}
	}
	programs := k.programs()
	for _, p := range k.processes {
		p.ours = !p.self && (descends(p, byID) || k.isMarkedProcess(p, programs))
		if p.ours {
			k.add("process %d, started at tick %s: %s", p.pid, p.started, p.command)
		}
	}
	return nil
}

// read returns nil if the process no longer exists or is a kernel thread.
func read(pid int) *process {
	p := &process{pid: pid, self: pid == os.Getpid()}
	b, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return nil
	}
	// The name is in parentheses and may itself contain parentheses.
	open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
	if open < 0 || end < open {
		return nil
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return nil
	}
	if flags, _ := strconv.ParseUint(f[6], 10, 64); flags&kernelThread != 0 {
		return nil
	}
	p.parent, _ = strconv.Atoi(f[1])
	p.started = f[19]
	line, _ := os.ReadFile(p.path("cmdline"))
	p.command = strings.TrimSpace(strings.ReplaceAll(string(line[:min(len(line), 200)]), "\x00", " "))
	if p.command == "" {
		p.command = string(b[open : end+1])
	}
	if f[0] == "Z" {
		p.command += zombie
	}
	return p
}

// zombie is the end of the description of a process that has ended.
const zombie = ", ended and not waited for"

// descends reports whether p descends from this process.
func descends(p *process, byID map[int]*process) bool {
	for range len(byID) {
		parent := byID[p.parent]
		if parent == nil || parent == p {
			return false
		}
		if parent.self {
			return true
		}
		p = parent
	}
	return false
}

// isMarkedProcess reports whether p has a mark of Options.Only, or runs one of the programs.
func (k *taker) isMarkedProcess(p *process, programs []fs.FileInfo) bool {
	for _, name := range []string{"cmdline", "environ", "cgroup", "mountinfo"} {
		// The mounts in this process's own mount namespace do not belong to p.
		if name == "mountinfo" && link(p.path("ns/mnt")) == link("/proc/self/ns/mnt") {
			continue
		}
		if b, err := os.ReadFile(p.path(name)); err == nil && k.isMarked(string(b)) {
			return true
		}
	}
	for _, name := range []string{"exe", "cwd", "root"} {
		if k.isMarked(link(p.path(name))) {
			return true
		}
	}
	exe, err := os.Stat(p.path("exe"))
	return err == nil && slices.ContainsFunc(programs, func(i fs.FileInfo) bool { return os.SameFile(exe, i) })
}

// programs returns the file information for each mark that is the path of a program.
func (k *taker) programs() []fs.FileInfo {
	var list []fs.FileInfo
	for _, mark := range k.options.Only {
		if i, err := os.Stat(mark); err == nil && filepath.IsAbs(mark) && i.Mode().IsRegular() {
			list = append(list, i)
		}
	}
	return list
}

// link returns "" if the target cannot be read.
func link(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return target
}

// vanished reports whether an error means that a file or process no longer exists.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EINVAL)
}
