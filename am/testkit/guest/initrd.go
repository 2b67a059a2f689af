package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modules are the kernel modules that are needed before the root file system is mounted,
// and modules that the kernel does not load automatically. A module that a kernel lacks is
// skipped, since it may be built in.
var modules = []string{
	"virtio_pci", "virtio_blk", "virtio_rng", "overlay", "loop", "tun", "veth", "bridge", "vsock", "vsock_loopback",
}

// orders are the instructions that the guest reads in its initrd.
type orders struct {
	CGroup   string
	Commands []string
	Env      []string
	Cut      bool
	// Modules are the names of files in /modules, in order.
	Modules []string
}

// writeInitrd writes an archive with this program as /init, the modules and the orders.
func writeInitrd(path string, modulesDir string, o orders) error {
	files, err := moduleFiles(modulesDir, modules)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &archive{w: bufio.NewWriter(f)}
	for _, name := range []string{"dev", "proc", "sys", "root", "modules"} {
		w.add(name, fs.ModeDir|0o755, nil)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	w.add("init", 0o755, self)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w.add("modules/"+filepath.Base(file), 0o644, b)
		o.Modules = append(o.Modules, filepath.Base(file))
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	w.add("orders.json", 0o644, text)
	if err := w.close(); err != nil {
		return err
	}
	return f.Close()
}

// archive writes cpio's "newc" format, which the kernel unpacks.
type archive struct {
	w   *bufio.Writer
	n   int // files so far
	err error
}

func (a *archive) add(name string, mode fs.FileMode, data []byte) {
	a.n++
	unixMode := uint32(mode.Perm()) | 0o100000
	if mode.IsDir() {
		unixMode = uint32(mode.Perm()) | 0o040000
	}
	a.entry(name, uint32(a.n), unixMode, data)
}

// entry stores an error in a.err.
func (a *archive) entry(name string, inode, mode uint32, data []byte) {
	header := "070701"
	for _, v := range []int{int(inode), int(mode), 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		header += fmt.Sprintf("%08x", v)
	}
	for _, part := range []string{header + name + "\x00", string(data)} {
		if a.err == nil {
			_, a.err = io.WriteString(a.w, part+strings.Repeat("\x00", -len(part)&3))
		}
	}
}

// close returns the first error.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

// moduleFiles returns the file of each module after the files of its dependencies.
func moduleFiles(dir string, names []string) ([]string, error) {
	at := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if name, found := strings.CutSuffix(filepath.Base(path), ".ko"); found {
			at[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var list []string
	var add func(name string) error
	add = func(name string) error {
		path, found := at[strings.ReplaceAll(name, "-", "_")]
		if !found || slices.Contains(list, path) {
			return nil
		}
		needs, err := dependencies(path)
		if err != nil {
			return err
		}
		for _, need := range needs {
			if err := add(need); err != nil {
				return err
			}
		}
		list = append(list, path)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func dependencies(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("module %s: it has no .modinfo", path)
	}
	b, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	for field := range bytes.SplitSeq(b, []byte{0}) {
		if text, found := bytes.CutPrefix(field, []byte("depends=")); found && len(text) > 0 {
			return strings.Split(string(text), ","), nil
		}
	}
	return nil, nil
}
