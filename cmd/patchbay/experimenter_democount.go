package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"patchbay/inventory/local"
	"path/filepath"
	"strings"
)

// leftovers counts a testbed's processes, cgroups, mounts, loop devices and files on this
// host.
type leftovers [5]int

func (s leftovers) comparedTo(earlier leftovers) string {
	return fmt.Sprintf("processes %d (were %d), cgroups %d (%d), mounts %d (%d), loop devices %d (%d), files %d (%d)",
		s[0], earlier[0], s[1], earlier[1], s[2], earlier[2], s[3], earlier[3], s[4], earlier[4])
}

// countLeftovers counts everything on this host that has the instance in its name.
func countLeftovers(instance string) (s leftovers) {
	name := "/" + instance
	holds := func(patterns ...string) bool { return countLines(name, patterns...) > 0 }
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		if holds(dir+"/cgroup", dir+"/cmdline") {
			s[0]++
		}
	}
	s[1] = countBelow(name, "/sys/fs/cgroup", fs.ModeDir)
	s[2] = countLines(name, "/proc/self/mountinfo")
	s[3] = countLines(name, "/sys/block/loop*/loop/backing_file")
	s[4] = countBelow(name, local.Folder, 0) + countBelow(name, "/var/lib/patchbay-local", 0)
	return s
}

// countLines counts the lines that contain text, in the files that match the patterns.
func countLines(text string, patterns ...string) (n int) {
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for line := range bytes.Lines(b) {
				if bytes.Contains(line, []byte(text)) {
					n++
				}
			}
		}
	}
	return n
}

// countBelow counts the entries whose path contains the name and whose type has all bits of
// mode. It also counts symbolic links whose target begins with the name.
func countBelow(name, folder string, mode fs.FileMode) (n int) {
	filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		target, _ := os.Readlink(path)
		if d.Type()&mode == mode && (strings.Contains(path, name) || strings.HasPrefix("/"+target, name)) {
			n++
		}
		return nil
	})
	return n
}
