package hoststate

import (
	"os"
	"path/filepath"
	"regexp"
)

// held is where a descriptor leads that keeps a namespace alive.
var held = regexp.MustCompile(`^(cgroup|ipc|mnt|net|pid|time|user|uts):\[[0-9]+\]$`)

// takeNamespaces lists the namespaces that threads of the test's processes, and
// of this one, are in, and those that their descriptors hold; also, since the
// descriptors are read here, the sockets they have.
func (k *taker) takeNamespaces() error {
	own := make(map[string]bool)
	for _, e := range entries("/proc/self/ns") {
		own[link(filepath.Join("/proc/self/ns", e.Name()))] = true
	}
	k.holders = make(map[string]bool)
	for _, p := range k.processes {
		if !p.ours && !p.self {
			continue
		}
		for _, task := range entries(p.path("task")) {
			dir := p.path("task", task.Name(), "ns")
			for _, e := range entries(dir) {
				if name := link(filepath.Join(dir, e.Name())); name != "" && !own[name] {
					k.addLine("namespace %s", name)
				}
			}
		}
		dir := p.path("fd")
		for _, e := range entries(dir) {
			target := link(filepath.Join(dir, e.Name()))
			if held.MatchString(target) && !own[target] {
				k.addLine("namespace %s", target)
			}
			if len(target) > 9 && target[:8] == "socket:[" {
				k.holders[target[8:len(target)-1]] = true
			}
		}
	}
	return nil
}

// entries are what is in a folder of /proc, nothing if it is gone.
func entries(dir string) []os.DirEntry {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return list
}
