package node

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"patchbay/inventory/local/agent"
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Argv0:
		Stage()
	case agent.Argv0:
		agent.Main()
	}
	os.Exit(m.Run())
}

// sh runs a line in the node as its root.
func sh(t testing.TB, h *Host, id, line string) (output string, exit agent.Exit) {
	t.Helper()
	return as(t, h, id, "root", line)
}

func as(t testing.TB, h *Host, id, user, line string) (output string, exit agent.Exit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := h.Agent(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := agent.Exec(ctx, c, agent.Command{User: user, Line: line}, []*os.File{null, w, w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	exit, err = p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(b), exit
}
