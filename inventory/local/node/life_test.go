package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/testdata/need"
)

// image makes a root file system of folders, over the host's /usr.
func hostImage(t testing.TB) Image {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "usr", "tmp", "var", "root", "home", "proc", "sys", "dev", "run"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + link); err == nil {
			if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nexp:x:1000:1000::/tmp:/bin/sh\n", "etc/group": "root:x:0:\nexp:x:1000:\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return Image{Root: root, Usr: "/usr"}
}

func openHost(t testing.TB, instance string) *Host {
	t.Helper()
	need.Root(t)
	h, err := Open(filepath.Join(t.TempDir(), "state"), instance, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
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
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func spec(t testing.TB, id string, image Image) Spec {
	return Spec{ID: id, Hostname: id + ".example.org", Base: 0x7ff00000, Image: image,
		Limits: Limits{CPUs: 1, Memory: 256 << 20, PIDs: 128, Disk: 1 << 30}}
}

func TestLife(t *testing.T) {
	h := openHost(t, "node-life")
	s := spec(t, "n1", hostImage(t))
	ctx := t.Context()
	if err := h.Prepare(ctx, s); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	r, err := h.Start(ctx, s)
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(h.Dir("n1"), logFile))
		t.Fatalf("%v\n%s", err, b)
	}
	t.Log(time.Since(before), r)
	if found, ok := h.Find(ctx, "n1"); !ok || found != r {
		t.Errorf("found %v %v, want %v", found, ok, r)
	}
	before = time.Now()
	if err := h.Kill(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(before))
	before = time.Now()
	r, err = h.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(before), r)
}
