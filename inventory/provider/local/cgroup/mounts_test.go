package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// v2 creates a folder that looks like the root of a version 2 tree.
func v2(t *testing.T, controllers string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(controllers+"\n"), 0o644))
	return dir
}

func TestDetectFindsControllers(t *testing.T) {
	const one = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /c/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /c/memory rw - cgroup cgroup rw,memory
38 31 0:35 / /c/freezer rw - cgroup cgroup rw,freezer
39 31 0:36 / /c/with\040space rw - cgroup cgroup rw,pids
40 31 0:37 / /c/systemd rw - cgroup cgroup rw,name=systemd
`
	empty, all, some := v2(t, ""), v2(t, "cpuset cpu io memory hugetlb pids"), v2(t, "cpu memory")
	two := func(path string) string { return "41 31 0:38 / " + path + " rw - cgroup2 cgroup2 rw,nsdelegate\n" }
	ones := []hierarchy{
		{path: "/c/cpu", controllers: []string{"cpu"}},
		{path: "/c/memory", controllers: []string{"memory"}},
		{path: "/c/freezer", controllers: []string{"freezer"}},
		{path: "/c/with space", controllers: []string{"pids"}},
	}
	hybrid := func(path string) []hierarchy {
		return []hierarchy{{path: path, v2: true, controllers: []string{}}, ones[0], ones[1], ones[3]}
	}
	for _, c := range []struct {
		name, mounts, version string
		want                  []hierarchy
	}{
		{"VersionOneNeedsTheFreezer", one, "v1", ones},
		{"HybridWithEmptyVersionTwo", one + two(empty), "hybrid", hybrid(empty)},
		{"OrderOfMountsDoesNotMatter", two(empty) + one, "hybrid", hybrid(empty)},
		{"VersionTwoAlone", two(all), "v2", []hierarchy{{path: all, v2: true, controllers: []string{"cpu", "memory", "pids"}}}},
		{"HybridWithSomeInVersionTwo", two(some) + "39 31 0:36 / /c/pids rw - cgroup cgroup rw,pids\n", "hybrid",
			[]hierarchy{{path: some, v2: true, controllers: []string{"cpu", "memory"}}, {path: "/c/pids", controllers: []string{"pids"}}}},
		{"SameTreeTwice", one + two(empty) + "50 31 0:32 / /elsewhere rw - cgroup cgroup rw,memory\n", "hybrid", hybrid(empty)},
		{"LinesOfNonsense", "\n- -\n1 2 3\n" + one, "v1", ones},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := detect(strings.NewReader(c.mounts))
			must(t, err)
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(hierarchy{})); d != "" {
				t.Error(d)
			}
			if v := (&Tree{all: got}).Version(); v != c.version {
				t.Errorf("version %s, want %s", v, c.version)
			}
		})
	}
	for _, c := range []struct{ name, mounts, missing string }{
		{"NoControllersAtAll", "", "cpu"},
		{"VersionTwoWithoutPIDs", two(some), "pids"},
		{"VersionOneWithoutFreezer", strings.ReplaceAll(one, "rw,freezer", "rw,blkio"), "freezer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := detect(strings.NewReader(c.mounts))
			if err == nil || !strings.Contains(err.Error(), "controller "+c.missing) {
				t.Errorf("error %v, want one that names %s", err, c.missing)
			}
		})
	}
}
