package hoststate

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mount is one line of a mountinfo file.
type mount struct {
	root, point, kind, source string
}

func readMounts(path string) ([]mount, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []mount
	for line := range strings.Lines(string(b)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 2 {
			return nil, fmt.Errorf("%s: cannot read the line %q", path, line)
		}
		list = append(list, mount{root: l[3], point: l[4], kind: r[0], source: r[1]})
	}
	return list, nil
}

// takeMounts adds all mounts with a mark. In this process's mount namespace, which is the host's,
// it also adds mounts without a mark, unless they keep a namespace alive or are in folders that
// other tests use.
func (k *taker) takeMounts() error {
	own := link("/proc/self/ns/mnt")
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, m := range mounts {
		line := fmt.Sprintf("mount on the host at %s: %s %s of %s", m.point, m.kind, m.root, m.source)
		if m.point == "/run/netns" { // ip makes it with the first named network namespace of the host
			continue
		}
		if k.isMarked(line) || m.kind != "nsfs" && !isShared(m.point) {
			k.add("%s", line)
		}
	}
	seen := map[string]bool{own: true}
	for _, p := range k.processes {
		name := link(p.path("ns/mnt"))
		if name == "" || seen[name] {
			continue
		}
		mounts, err := readMounts(p.path("mountinfo"))
		if err != nil {
			if vanished(err) {
				continue // another process may still be in this namespace
			}
			return err
		}
		seen[name] = true
		for _, m := range mounts {
			if line := fmt.Sprintf("at %s: %s %s of %s", m.point, m.kind, m.root, m.source); k.isMarked(line) {
				k.add("mount in %s %s", name, line)
			}
		}
	}
	return nil
}

// isShared reports whether a path is in a folder that several tests and testbeds use. In such a
// folder, the paths of a test's objects contain its mark.
func isShared(path string) bool {
	return strings.HasPrefix(path, filepath.Clean(os.TempDir())+"/") || strings.Contains(path, "/patchbay-local/")
}

// takeCgroups adds the cgroups with a mark, of all hierarchies.
func (k *taker) takeCgroups() error {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for _, m := range mounts {
		if (m.kind == "cgroup" || m.kind == "cgroup2") && !slices.Contains(points, m.point) {
			points = append(points, m.point)
		}
	}
	for _, point := range points {
		err := filepath.WalkDir(point, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && vanished(err):
				return nil
			case err != nil:
				return err
			case e.IsDir() && path != point && slices.Contains(points, path):
				return fs.SkipDir // a hierarchy mounted within this one
			case e.IsDir() && path != point && k.isMarked(path):
				k.add("cgroup %s", path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *taker) takeLoops() error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the device was detached meanwhile
		}
		if backing := strings.TrimSpace(string(b)); k.isMarked(backing) {
			k.add("loop device %s on %s", strings.Split(file, "/")[3], backing)
		}
	}
	return nil
}
