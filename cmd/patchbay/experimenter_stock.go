package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"patchbay/inventory/local"
)

// stock counts what of a testbed is on this host.
type stock struct{ processes, cgroups, mounts, loops, files int }

// of tells the counts beside those there were.
func (s stock) of(had stock) string {
	return fmt.Sprintf("processes %d (were %d), cgroups %d (%d), mounts %d (%d), loop devices %d (%d), files %d (%d)",
		s.processes, had.processes, s.cgroups, had.cgroups, s.mounts, had.mounts, s.loops, had.loops, s.files, had.files)
}

// takeStock counts what bears the name of the instance, or lies in its folder.
func takeStock(instance, folder string) stock {
	return stock{
		processes: countProcesses(instance, folder),
		cgroups:   countCgroups(instance),
		mounts:    countLines("/proc/self/mountinfo", folder),
		loops:     countLoops(folder),
		files:     countFiles(instance, filepath.Join(folder, "state")),
	}
}

func countProcesses(instance, folder string) (n int) {
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if dir == self {
			continue
		}
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(group, []byte("/patchbay-local/"+instance)) || bytes.Contains(group, []byte("/patchbay-local-programs/"+instance)) || bytes.Contains(command, []byte(folder+"/")) {
			n++
		}
	}
	return n
}

func countCgroups(instance string) (n int) {
	// In a hierarchy of its own each, or in the only one.
	for _, pattern := range []string{"/sys/fs/cgroup/patchbay-local*/", "/sys/fs/cgroup/*/patchbay-local*/"} {
		roots, _ := filepath.Glob(pattern + instance)
		for _, root := range roots {
			n += count(root, func(_ string, d fs.DirEntry) bool { return d.IsDir() })
		}
	}
	return n
}

func countLoops(folder string) (n int) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		n += countLines(f, folder)
	}
	return n
}

// countFiles counts those in the folder of the state, and those elsewhere that
// are named after the instance, or are claims of it.
func countFiles(instance, state string) int {
	n := count(state, func(string, fs.DirEntry) bool { return true })
	for _, dir := range []string{local.Folder, "/var/lib/patchbay-local"} {
		n += count(dir, func(path string, d fs.DirEntry) bool {
			holder, _ := os.Readlink(path)
			return strings.HasPrefix(d.Name(), instance) || strings.HasPrefix(holder, instance)
		})
	}
	return n
}

// count counts what is at path and below that f accepts.
func count(path string, f func(path string, d fs.DirEntry) bool) (n int) {
	filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && f(path, d) {
			n++
		}
		return nil // what goes away meanwhile does not count
	})
	return n
}

// countLines counts the lines of a file that hold text.
func countLines(path, text string) (n int) {
	b, _ := os.ReadFile(path)
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n
}
