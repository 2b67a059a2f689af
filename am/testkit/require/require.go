package require

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Tool is the path of the program name, which the test cannot do without.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, "the program %s is not installed", name)
	}
	return path
}

// Root asks for the rights of root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root", "the test needs root")
	}
}

// NetNS asks for root on Linux with network namespaces.
func NetNS(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		missing(t, "netns", "network namespaces need root on Linux")
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		missing(t, "netns", "the kernel has no network namespaces")
	}
}

// TUN asks for a device that makes tunnels.
func TUN(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		missing(t, "tun", "cannot open /dev/net/tun: %v", err)
	}
	f.Close()
}

// SSH is the path of OpenSSH's client, with ssh-keygen beside it.
func SSH(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		missing(t, "ssh", "the program ssh-keygen is not installed")
	}
	path, err := exec.LookPath("ssh")
	if err != nil {
		missing(t, "ssh", "the program ssh is not installed")
	}
	return path
}

// Shared is the folder of the corpus: recorded calls, requests and schemas
// that are too large, or not ours, to be kept in the repository. With elems it
// is the path of a file or folder inside, which must exist.
func Shared(t testing.TB, elems ...string) string {
	t.Helper()
	dir := os.Getenv("PATCHBAY_CORPUS")
	if dir == "" {
		missing(t, "shared", "PATCHBAY_CORPUS does not name the folder of the corpus")
	}
	path := filepath.Join(append([]string{dir}, elems...)...)
	if _, err := os.Stat(path); err != nil {
		missing(t, "shared", "the corpus is incomplete: %v", err)
	}
	return path
}

// Required reports whether PATCHBAY_REQUIRE names name.
func Required(name string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv("PATCHBAY_REQUIRE"), ","), func(s string) bool {
		return strings.TrimSpace(s) == name
	})
}

// missing skips the test, or fails it if PATCHBAY_REQUIRE names what is missing.
func missing(t testing.TB, name, format string, args ...any) {
	t.Helper()
	if Required(name) {
		t.Fatalf("required by PATCHBAY_REQUIRE: "+format, args...)
	}
	t.Skipf(format, args...)
}
