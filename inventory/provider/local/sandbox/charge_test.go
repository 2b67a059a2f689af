package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// takeAllInotify takes all inotify instances that it can get, and keeps them until its
// input ends.
func takeAllInotify() {
	n := 0
	for ; n < 100_000; n++ {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
	}
	fmt.Println(n)
	io.Copy(io.Discard, os.Stdin)
}

// A node that uses up its limits must not reduce those of the host and of other nodes.
func TestNodesShareNoUserLimits(t *testing.T) {
	const nodes = 2
	for i := range nodes {
		c := nodeChild(t, "hoard")
		ids := c.SysProcAttr.UidMappings
		for j := range ids {
			ids[j].HostID += i * 65536
		}
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.SysProcAttr.Pdeathsig = 0
		if err := WithNamespaceOwner(ids[0].HostID, c.Start); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = c.Wait() // the end of the test's context may have killed it
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line = strings.TrimSpace(line); line == "0" {
			t.Errorf("node %d got no inotify instance", i)
		}
		t.Logf("node %d has %s inotify instances", i, line)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatalf("the host has no inotify instance left: %v", err)
	}
	unix.Close(fd)
	if unix.Geteuid() != 0 {
		t.Errorf("the effective user of another thread is %d", unix.Geteuid())
	}
}

func TestNamespaceOwnerIsNotRoot(t *testing.T) {
	for _, uid := range []int{0, -1} {
		if err := WithNamespaceOwner(uid, func() error { return nil }); err == nil {
			t.Errorf("%d was taken", uid)
		}
	}
}
