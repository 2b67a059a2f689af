package hoststate

import (
	"os"
	"path/filepath"
	"regexp"
)

// namespaceLink matches the link target in /proc/PID/fd of a descriptor that keeps a namespace
// alive.
var namespaceLink = regexp.MustCompile(`^(cgroup|ipc|mnt|net|pid|time|user|uts):\[[0-9]+\]$`)

// takeNamespaces adds the namespaces of the threads of this process and of the test's
// processes. It also adds the namespaces that descriptors of these processes keep alive. It
// skips the namespaces of this process's main thread.
func (k *taker) takeNamespaces() error {
	own := make(map[string]bool)
	for _, e := range entries("/proc/self/ns") {
		own[link(filepath.Join("/proc/self/ns", e.Name()))] = true
	}
	for _, p := range k.processes {
		if !p.ours && !p.self {
			continue
		}
		for _, task := range entries(p.path("task")) {
			dir := p.path("task", task.Name(), "ns")
			for _, e := range entries(dir) {
				if name := link(filepath.Join(dir, e.Name())); name != "" && !own[name] {
					k.addOnce("namespace %s", name)
				}
			}
		}
		dir := p.path("fd")
		for _, e := range entries(dir) {
			target := link(filepath.Join(dir, e.Name()))
			if namespaceLink.MatchString(target) && !own[target] {
				k.addOnce("namespace %s", target)
			}
		}
	}
	return nil
}

// entries returns none if the folder no longer exists.
func entries(dir string) []os.DirEntry {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return list
}
