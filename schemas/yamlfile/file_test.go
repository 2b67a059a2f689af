package yamlfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLoadReadsRegularFilesOfSomeLengthOnly times out if Load waits for a pipe.
func TestLoadReadsRegularFilesOfSomeLengthOnly(t *testing.T) {
	for _, tt := range []struct {
		rule, want string
		make       func(file string) error
	}{
		{"a pipe", "it is not a regular file; put one in its place", func(file string) error { return syscall.Mkfifo(file, 0o600) }},
		{"a folder", "it is not a regular file; put one in its place", func(file string) error { return os.Mkdir(file, 0o700) }},
		{"a link to what is not there", "it is a symbolic link to a missing file; correct the link, or remove it", func(file string) error { return os.Symlink(file+".gone", file) }},
		{"a long one", "it is larger than 1 MiB; make it shorter", func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<20+1))
		}},
	} {
		file := filepath.Join(t.TempDir(), "b.yaml")
		if err := tt.make(file); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file, 1<<20)
		if _, ok := errors.AsType[*Error](err); !ok || err.Error() != file+": "+tt.want {
			t.Errorf("%s: %v, want %s", tt.rule, err, tt.want)
		}
	}
	file := filepath.Join(t.TempDir(), "b.yaml")
	if _, err := Load(file, 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	text := strings.Repeat("x", 1<<20)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(file, 1<<20); err != nil || string(got) != text {
		t.Errorf("a file of the longest length: %d bytes, %v", len(got), err)
	}
}
