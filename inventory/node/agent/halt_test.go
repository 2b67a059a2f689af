package agent

import (
	"strings"
	"testing"
)

func TestHalt(t *testing.T) {
	t.Run("ProcessesAreAsked", func(t *testing.T) {
		n := newNode(t)
		p, _, out := n.start(Command{User: "bob", Line: "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done"})
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		shell, r := n.terminal("root", "trap '' TERM; trap 'echo hup; exit' HUP"+waiting)
		check(t, Halt(t.Context(), n.dial()))
		for line := ""; line != "hup\r\n"; { // the trap's output comes first
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
		}
		if text, err := readAll(out); err != nil || !strings.HasSuffix(text, "bye\n") {
			t.Errorf("%q, %v", text, err)
		}
		for _, p := range []*Process{p, shell} {
			if exit, err := p.Wait(); err != nil || exit.Signal != 0 {
				t.Error(exit, err)
			}
		}
		_, err := Exec(t.Context(), n.dial(), Command{User: "bob", Terminal: &Terminal{}}, nil)
		if err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Error(err)
		}
		if id, err := Ping(t.Context(), n.dial()); err != nil || id.Node != "node-1" {
			t.Error(id, err)
		}
	})
	t.Run("DoesNotWaitForEver", func(t *testing.T) {
		n := newNode(t)
		_, _, out := n.start(Command{User: "bob", Line: "trap '' TERM HUP; echo ready; while :; do sleep 0.01; done"})
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		check(t, Halt(withTimeout(t, 2*haltTime), n.dial()))
	})
}
