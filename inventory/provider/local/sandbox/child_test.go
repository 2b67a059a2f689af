package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// The test binary runs again as a child that drops rights and makes attempts. Its
// argument names what the child does.
const childWord = "CONFINE_CHILD"

// hostID is the first user id of children, outside of the range of nodes.
const hostID = 0x6fff0000

func TestMain(m *testing.M) {
	if word := os.Getenv(childWord); word != "" {
		children()[word]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// nodeChild returns a child that is root in the namespaces of a node.
func nodeChild(t *testing.T, word string, args ...string) *exec.Cmd {
	t.Helper()
	require.Root(t)
	c := child(t, word, args...)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: hostID, Size: 65536}}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
		Pdeathsig:  syscall.SIGKILL,
	}
	return c
}

func child(t *testing.T, word string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append(os.Environ(), childWord+"="+word)
	c.WaitDelay = 5 * time.Second
	return c
}

// lines parses lines of the form "name: result".
func lines(out []byte) map[string]string {
	got := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, what, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			got[name] = what
		}
	}
	return got
}
