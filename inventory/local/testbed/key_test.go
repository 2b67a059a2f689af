package testbed

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host that has only the first key of today's gets the second, once, and keeps
// the first.
func TestOldHostKeyGetsASecond(t *testing.T) {
	dir := t.TempDir()
	private, public, err := newHostKey()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	if err := os.WriteFile(filepath.Join(dir, "host_key"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := func() ([]byte, error) { return nil, errors.New("a new one is made") }
	first, lines, err := keptHostKey(dir, "host_key", fresh)
	if err != nil {
		t.Fatal(err)
	}
	was, _, _ := strings.Cut(public, "\n")
	if is := strings.Split(lines, "\n"); len(is) != 2 || is[0] != was || !strings.HasPrefix(is[1], "ecdsa-sha2-nistp256 ") {
		t.Errorf("it has %q, had %q", is, was)
	}
	again, _, err := keptHostKey(dir, "host_key", fresh)
	if err != nil || string(again) != string(first) {
		t.Errorf("it changed once more: %v", err)
	}
}
