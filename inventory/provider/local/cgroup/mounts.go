package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type hierarchy struct {
	path        string // where it is mounted
	v2          bool
	controllers []string // those that this package uses
}

func (h hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// leafControllers returns the controllers that have different settings for the groups
// init and jobs.
func (h hierarchy) leafControllers() (list []string) {
	for _, c := range []string{"cpu", "pids"} {
		if h.has(c) {
			list = append(list, c)
		}
	}
	return list
}

// limiting are the controllers that are required to limit nodes.
var limiting = [...]string{"cpu", "memory", "pids"}

// detect finds the required hierarchies in a mountinfo file: the one of version 2, if
// any, and each of version 1 that has a limiting controller. Without version 2 it also
// requires the controller freezer. The hierarchy of version 2 comes first.
func detect(mountinfo io.Reader) ([]hierarchy, error) {
	var v2 *hierarchy
	var v1 []hierarchy
	seen := make(map[string]bool) // by device: a tree can be mounted twice
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(kind) < 3 || seen[mount[2]] {
			continue
		}
		path := unescape(mount[4])
		switch kind[0] {
		case "cgroup":
			seen[mount[2]] = true
			v1 = append(v1, hierarchy{path: path, controllers: strings.Split(kind[2], ",")})
		case "cgroup2":
			seen[mount[2]] = true
			b, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
			if err != nil {
				return nil, fmt.Errorf("cannot read the controllers of %s: %w", path, err)
			}
			v2 = &hierarchy{path: path, v2: true, controllers: strings.Fields(string(b))}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var all []hierarchy
	wanted := limiting[:]
	if v2 != nil {
		all = append(all, *v2)
	} else {
		wanted = append(slices.Clone(wanted), "freezer")
	}
	all = append(all, v1...)
	for i := range all {
		all[i].controllers = slices.DeleteFunc(all[i].controllers, func(c string) bool {
			return !slices.Contains(wanted, c)
		})
	}
	all = slices.DeleteFunc(all, func(h hierarchy) bool { return !h.v2 && len(h.controllers) == 0 })
	for _, c := range wanted {
		if !slices.ContainsFunc(all, func(h hierarchy) bool { return h.has(c) }) {
			return nil, fmt.Errorf("no cgroup controller %s is mounted: mount cgroup2 at /sys/fs/cgroup, and if the kernel's command line has cgroup_disable=%s, remove it", c, c)
		}
	}
	return all, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
