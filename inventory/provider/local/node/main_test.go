package node

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/node/agent"
)

func TestMain(m *testing.M) {
	if os.Getuid() != os.Geteuid() { // as the program itself does
		agent.RunCommand(agent.SudoName, os.Args[1:])
	}
	switch os.Args[0] {
	case Argv0:
		Stage()
	case agent.Argv0:
		agent.Main()
	case creatorArgv0:
		runCreator()
	}
	// As in the testbed, agents become children of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// base is the first id of the nodes of these tests; each has its own range.
const base = 0x7ff00000

// testImage creates a root file system that shares only the host's /usr.
func testImage(t testing.TB) Image {
	t.Helper()
	root := t.TempDir()
	for dir, mode := range map[string]os.FileMode{
		"": 0o755, "etc": 0o755, "usr": 0o755, "var": 0o755, "home": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755,
		"root": 0o700, "tmp": 0o777 | os.ModeSticky,
	} {
		path := filepath.Join(root, dir)
		must(t, os.MkdirAll(path, 0o755))
		must(t, os.Chmod(path, mode))
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + link); err == nil {
			must(t, os.Symlink(target, filepath.Join(root, link)))
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/tmp:/bin/sh\n",
		"etc/group":  "root:x:0:\nada:x:1000:\n",
	} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	return Image{Root: root, Usr: "/usr"}
}

// openHost opens an instance for the test and removes it at the end.
func openHost(t testing.TB, instance string) *Host {
	t.Helper()
	require.Root(t)
	return reopen(t, filepath.Join(t.TempDir(), "state"), instance)
}

func reopen(t testing.TB, state, instance string) *Host {
	t.Helper()
	h, err := Open(state, instance, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})))
	must(t, err)
	t.Cleanup(func() {
		removeAll(t, h)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func removeAll(t testing.TB, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ids, err := h.IDs()
	if err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if err := h.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	}
}

func spec(id string, image Image) Spec {
	return Spec{ID: id, Hostname: id + ".example.org", Base: base, Image: image,
		Limits: Limits{CPUs: 1, Memory: 128 << 20, PIDs: 128, Disk: 64 << 20}}
}

func prepare(t testing.TB, h *Host, s Spec) {
	t.Helper()
	must(t, h.Prepare(t.Context(), s))
}

func start(t testing.TB, h *Host, s Spec) Running {
	t.Helper()
	r, err := h.Start(t.Context(), s)
	must(t, err)
	return r
}

// launch prepares and starts a node.
func launch(t testing.TB, h *Host, s Spec) Running {
	t.Helper()
	prepare(t, h, s)
	return start(t, h, s)
}

func kill(t testing.TB, h *Host, id string) {
	t.Helper()
	must(t, h.Kill(t.Context(), id))
}

// runLine runs a line in the node as root, and returns its output.
func runLine(t testing.TB, h *Host, id, line string) (output string, exit agent.Exit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := h.Agent(ctx, id)
	must(t, err)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	p, err := agent.Exec(ctx, c, agent.Command{User: "root", Line: line}, []*os.File{null, w, w})
	w.Close()
	must(t, err)
	defer p.Close()
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(r)
	must(t, err)
	if exit, err = p.Wait(); err != nil {
		t.Fatal(err)
	}
	return string(b), exit
}

// expectOutput runs a line in the node, which must print exactly output.
func expectOutput(t testing.TB, h *Host, id, line, output string) {
	t.Helper()
	if got, exit := runLine(t, h, id, line); got != output || exit != (agent.Exit{}) {
		t.Errorf("in the node, %s\n got %q %+v\nwant %q", line, got, exit, output)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
