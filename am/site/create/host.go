package create

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/provider/osinfo"
)

func describeHost(ctx context.Context) inventory.Host {
	system := osinfo.Read("/", "usr") // nodes have no /usr/local of the host
	return inventory.Host{
		Name: componentName(site.FullName(ctx)), OSVersion: system.Version, OSName: system.Title, Features: system.Items(),
		Cores: runtime.NumCPU(), Memory: memory(), Disk: cmp.Or(freeDisk("/var/lib/patchbay-local"), freeDisk("/var/lib")),
	}
}

// componentName returns the host's first label; "host1" if that is no component name.
func componentName(host string) string {
	label, _, _ := strings.Cut(strings.ToLower(host), ".")
	if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || label[0] == '-' {
		return "host1"
	}
	return label
}

// memory is in bytes; 0 if it is unknown.
func memory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// freeDisk is in bytes; 0 if it is unknown.
func freeDisk(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}
