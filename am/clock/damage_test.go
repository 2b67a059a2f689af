package clock

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoFlippedBitIsTime flips each bit of a file. What can still be read says the same.
func TestNoFlippedBitIsTime(t *testing.T) {
	for _, r := range []record{
		{Site: noon.Add(123456789), Host: noon.Add(123456789), Boot: "8f3c", Steady: 987654321},
		{Site: noon, Host: noon.Add(year), Boot: "8f3c", Steady: hour, Doubt: Jumped, Since: noon.Add(-hour)},
	} {
		good := []byte(written(t, r))
		for at := range good {
			for bit := range 8 {
				text := bytes.Clone(good)
				text[at] ^= 1 << bit
				if got, err := parse(text); err == nil && written(t, got) != string(good) {
					t.Errorf("%s is read as %+v", text, got)
				}
			}
		}
	}
}

// TestADamagedFileEndsNothingEarly: the copy of the one before goes on, also while the
// host's clock is wrong.
func TestADamagedFileEndsNothingEarly(t *testing.T) {
	for rule, damage := range map[string]func(good []byte) []byte{
		"a bit":       func(b []byte) []byte { return bytes.Replace(b, []byte("2026"), []byte("2126"), 1) },
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"nothing":     func([]byte) []byte { return nil },
		"only zeroes": func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(rule, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "clock.json")
			f := &fake{boot: "b", wall: noon, steady: hour}
			c := open(t, f, file)
			f.wall = f.wall.Add(year) // and nobody believes it
			for range 3 {
				if err := c.Save(); err != nil {
					t.Fatal(err)
				}
				f.passes(hour)
			}
			// Twice: the copy is as good after the first start has written anew.
			for range 2 {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, damage(text), 0o600); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				c, err = Open(Options{File: file, Log: slog.New(slog.NewTextHandler(&log, nil)), Host: f.host()})
				if err != nil {
					t.Fatal(err)
				}
				if s := c.State(); s.Doubt != Jumped || s.Ahead() != year {
					t.Errorf("%+v, want that the host is a year ahead", s)
				}
				if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), file+" is broken") {
					t.Errorf("the log says %q", log.String())
				}
				for range 2 {
					if err := c.Save(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestWhatIsNoFileIsRefused, and nobody waits for it.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	f := &fake{boot: "b", wall: noon, steady: hour}
	for rule, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		t.Run(rule, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "clock.json")
			if err := put(file); err != nil {
				t.Fatal(err)
			}
			if err := Check(file); err == nil {
				t.Error("Check says nothing")
			}
			_, err := Open(Options{File: file, Log: quiet, Host: f.host()})
			if err == nil || !strings.Contains(err.Error(), file+" is not a regular file") {
				t.Errorf("error %v", err)
			}
		})
	}
}
