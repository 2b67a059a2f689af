package site

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRegularIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "request.xml")
	for size, want := range map[int64]string{3: "", maxRegular + 1: "it is larger than 64 MiB; name a shorter one"} {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
			t.Fatal(err)
		}
		text, err := ReadRegular(file)
		if want == "" && (err != nil || int64(len(text)) != size) || want != "" && (err == nil || !strings.Contains(err.Error(), file+": "+want)) {
			t.Errorf("%d bytes: %d of them, %v, want %q", size, len(text), err, want)
		}
	}
}
