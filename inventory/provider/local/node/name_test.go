package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// hostile are names that must never be used in a path.
var hostile = []string{
	"", ".", "..", "../..", "../../usr", "a/b", "/etc", "a\x00b", "a b", "A", "node.1", "n_1", "ä", "a\n", "~", "*",
	strings.Repeat("a", 65), gatewayGroup, vswitchGroup + "a", "\xff",
}

func TestRefusedNames(t *testing.T) {
	h := openHost(t, "node-names")
	ctx := t.Context()
	image := testImage(t)
	for _, name := range hostile {
		if h.Dir(name) != "" {
			t.Errorf("Dir(%q) = %q", name, h.Dir(name))
		}
		calls := map[string]error{
			"Prepare": h.Prepare(ctx, spec(name, image)),
			"Kill":    h.Kill(ctx, name),
			"Remove":  h.Remove(ctx, name),
		}
		_, calls["Start"] = h.Start(ctx, spec(name, image))
		_, calls["Agent"] = h.Agent(ctx, name)
		_, calls["Usage"] = h.Usage(name)
		_, calls["Network"] = h.Network(name)
		for call, err := range calls {
			if err == nil || !strings.Contains(err.Error(), "cannot be the id of a node") {
				t.Errorf("%s of %q: %v", call, name, err)
			}
		}
		if _, ok := h.Find(ctx, name); ok {
			t.Errorf("%q was found", name)
		}
	}
	for _, good := range []string{"a", "0", "-", strings.Repeat("z", 64), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"} {
		if h.Dir(good) != filepath.Join(h.State, "nodes", good) {
			t.Errorf("Dir(%q) = %q", good, h.Dir(good))
		}
	}
	for _, name := range append(hostile[:len(hostile)-3:len(hostile)-3], "seventeen-letters") {
		if _, err := Open(filepath.Join(t.TempDir(), "s"), name, nil); err == nil || !strings.Contains(err.Error(), "cannot be the name of an instance") {
			t.Errorf("instance %q: %v", name, err)
		}
	}
}

func TestRefusedSpecs(t *testing.T) {
	image := Image{Root: "/image", Usr: "/usr"}
	must(t, spec("n1", image).check())
	for name, c := range map[string]struct {
		change func(*Spec)
		words  string
	}{
		"NoHostname":       {func(s *Spec) { s.Hostname = "" }, "host name"},
		"LongHostname":     {func(s *Spec) { s.Hostname = strings.Repeat("a", 65) }, "host name"},
		"HostnameOfLines":  {func(s *Spec) { s.Hostname = "a\nb" }, "host name"},
		"IDsOfTheHost":     {func(s *Spec) { s.Base = 1000 }, "ids"},
		"IDsBeyondTheLast": {func(s *Spec) { s.Base = 0xffff8000 }, "ids"},
		"RelativeRoot":     {func(s *Spec) { s.Image.Root = "image" }, "absolute"},
		"NoRoot":           {func(s *Spec) { s.Image.Root = "" }, "absolute"},
		"RelativeUsr":      {func(s *Spec) { s.Image.Usr = "usr" }, "absolute"},
		"NegativeCPUs":     {func(s *Spec) { s.Limits.CPUs = -1 }, "processors"},
		"NotANumber":       {func(s *Spec) { s.Limits.CPUs = nan() }, "processors"},
		"LittleMemory":     {func(s *Spec) { s.Limits.Memory = 1 }, "memory"},
		"NegativeMemory":   {func(s *Spec) { s.Limits.Memory = -1 << 40 }, "memory"},
		"FewProcesses":     {func(s *Spec) { s.Limits.PIDs = 3 }, "processes"},
		"NoDisk":           {func(s *Spec) { s.Limits.Disk = 0 }, "disk"},
		"DataTooSmall":     {func(s *Spec) { s.Disks = []Disk{{"/data", 1}} }, "disk of 1 bytes"},
		"DataAtTheRoot":    {func(s *Spec) { s.Disks = []Disk{{"/", 16 << 20}} }, "cannot be mounted"},
		"DataOutside":      {func(s *Spec) { s.Disks = []Disk{{"/a/../..", 16 << 20}} }, "cannot be mounted"},
		"TooManyDisks":     {func(s *Spec) { s.Disks = make([]Disk, MaxDisks+1) }, "33 disks"},
		"HugeDisk":         {func(s *Spec) { s.Limits.Disk = 1 << 60 }, "disk"},
	} {
		s := spec("n1", image)
		c.change(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "node n1") {
			t.Errorf("%s: %v, want words about %s", name, err, c.words)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestStateFolderIsPrivate(t *testing.T) {
	require.Root(t)
	open := t.TempDir()
	must(t, os.Chmod(open, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(t.TempDir(), link))
	theirs := filepath.Join(t.TempDir(), "theirs")
	must(t, os.Mkdir(theirs, 0o700))
	must(t, os.Chown(theirs, 1234, 1234))
	for _, state := range []string{open, link, theirs, "relative", "", "/tmp/../tmp/x"} {
		if h, err := Open(state, "node-state", nil); err == nil {
			h.Close()
			t.Errorf("%q was taken", state)
		}
	}
}

// FuzzNames checks the names that become paths.
func FuzzNames(f *testing.F) {
	for _, name := range append(hostile, "n1", "-") {
		f.Add(name)
	}
	h := &Host{State: "/state"}
	f.Fuzz(func(t *testing.T, name string) {
		dir := h.Dir(name)
		if dir == "" {
			return
		}
		if filepath.Dir(dir) != "/state/nodes" || filepath.Base(dir) != name || len(name) > 64 {
			t.Errorf("%q became %q", name, dir)
		}
	})
}
