package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNetworkBelongsToTheNode(t *testing.T) {
	h := openHost(t, "node-net")
	s := spec("n1", testImage(t))
	r := launch(t, h, s)
	f, err := h.Network("n1")
	must(t, err)
	defer f.Close()
	var got, want unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &got))
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", r.PID), &want); err != nil || got.Ino != want.Ino {
		t.Errorf("opened %d, the node's is %d, %v", got.Ino, want.Ino, err)
	}

	stranger, own := r, r
	stranger.Started = "1"
	own.PID = os.Getpid()
	if own.Started, _, err = ProcessStat(own.PID); err != nil {
		t.Fatal(err)
	}
	other := r
	other.Boot = "another"
	for _, tt := range []struct {
		rule string
		is   Running
		want string
	}{
		{"the number is another process's", stranger, "was reused by another process"},
		{"a process of the host", own, "is in the network of the host"},
		{"before the last boot", other, "node n1 does not run"},
		{"no process", Running{PID: 1 << 30, Started: r.Started, Boot: r.Boot}, "no such file"},
		{"never started", Running{}, "node n1 does not run"},
		{"it runs", r, ""},
	} {
		b, err := json.Marshal(tt.is)
		if err == nil {
			err = os.WriteFile(filepath.Join(h.Dir("n1"), recordFile), b, 0o600)
		}
		must(t, err)
		f, err := h.Network("n1")
		if err == nil {
			f.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.want)
		}
	}
	kill(t, h, "n1")
	for _, id := range []string{"n1", "n2", "../n1"} {
		if f, err := h.Network(id); err == nil {
			f.Close()
			t.Errorf("%s has a network", id)
		}
	}
}
