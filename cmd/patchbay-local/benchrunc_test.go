package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// runc runs Debian's runc with the benchmark's own bundle and state folder.
type runc struct{ bundle, state string }

// newRunc creates a bundle like the image of the local testbed: this host's programs,
// read-only, in a root that shares nothing else.
func newRunc(b *testing.B) runc {
	b.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "bench-runc")
	if err != nil {
		b.Fatal(err)
	}
	r := runc{bundle: filepath.Join(dir, "bundle"), state: filepath.Join(dir, "state")}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	for _, sub := range []string{"proc", "sys", "dev", "etc", "tmp", "usr"} {
		if err := os.MkdirAll(filepath.Join(r.bundle, "rootfs", sub), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(r.bundle, "rootfs", name)); err != nil {
			b.Fatal(err)
		}
	}
	r.must(b, "spec", "--bundle", r.bundle)
	path := filepath.Join(r.bundle, "config.json")
	text, err := os.ReadFile(path)
	var spec map[string]any
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		b.Fatal(err)
	}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/bin/sleep", "infinity"}
	spec["mounts"] = append(spec["mounts"].([]any), map[string]any{
		"destination": "/usr", "source": "/usr", "type": "bind", "options": []string{"bind", "ro", "nosuid", "nodev"},
	})
	if text, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (r runc) name(i int) string { return fmt.Sprintf("bench-runc-%d-%d", os.Getpid(), i) }

func (r runc) run(args ...string) error {
	c := exec.Command("runc", append([]string{"--root", r.state}, args...)...)
	// A container keeps its standard streams open, so they must not be pipes that a
	// reader waits for.
	out, err := os.CreateTemp("", "bench-runc")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("runc %v: %w: %.500s", args, err, text)
	}
	return nil
}

func (r runc) must(b *testing.B, args ...string) {
	b.Helper()
	if err := r.run(args...); err != nil {
		b.Fatal(err)
	}
}

// all calls f for n containers, as many at a time as there are processors, and
// stops at errors. Containers that are left are removed.
func (r runc) all(b *testing.B, n int, f func(name string) error) {
	b.Helper()
	places := make(chan struct{}, runtime.NumCPU())
	var work sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if err := f(r.name(i)); err != nil {
				b.Error(err)
			}
		})
	}
	work.Wait()
	if !b.Failed() {
		return
	}
	for i := range n {
		_ = r.run("delete", "--force", r.name(i))
	}
	b.FailNow()
}
