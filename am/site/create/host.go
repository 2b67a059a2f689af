package create

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/am/site"
	"patchbay/inventory"
)

func describeHost(ctx context.Context) inventory.Host {
	release := osRelease()
	return inventory.Host{
		Name: componentName(site.FullName(ctx)), OSVersion: release["VERSION_ID"], OSName: release["PRETTY_NAME"], Ansible: ansibleVersion("/usr"),
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

// osRelease returns the content of os-release(5); nil if the host has none.
func osRelease() map[string]string {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := os.ReadFile(file); err == nil {
			return parseOSRelease(string(text))
		}
	}
	return nil
}

// ansibleVersion returns the version of Ansible below usr, the folder that nodes share; "" if it
// lacks Ansible, or jmespath, which the filter json_query needs.
func ansibleVersion(usr string) string {
	if _, err := os.Stat(filepath.Join(usr, "bin/ansible-playbook")); err != nil {
		return ""
	}
	releases, _ := filepath.Glob(filepath.Join(usr, "lib/python3*/*-packages/ansible/release.py"))
	libraries, _ := filepath.Glob(filepath.Join(usr, "lib/python3*/*-packages/jmespath"))
	if len(releases) == 0 || len(libraries) == 0 {
		return ""
	}
	text, err := os.ReadFile(releases[0])
	if err != nil {
		return ""
	}
	_, version, _ := strings.Cut(string(text), "\n__version__ = '")
	version, _, _ = strings.Cut(version, "'")
	return version
}

func parseOSRelease(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			m[key] = strings.Trim(value, `"'`)
		}
	}
	return m
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
