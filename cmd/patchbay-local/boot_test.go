package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A boot cannot be had in one test: testdata/guest runs the first of these
// two, cuts the power, and runs the second on the same disk. PATCHBAY_BOOT is a
// folder on it.
func bootSite(t *testing.T) *crashSite {
	t.Helper()
	dir := os.Getenv("PATCHBAY_BOOT")
	if dir == "" {
		t.Skip("PATCHBAY_BOOT names no folder that lives on after a boot; testdata/guest sets it")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return newCrashSite(t, "boot", dir)
}

func TestBeforeThePowerCut(t *testing.T) {
	s := bootSite(t)
	s.start()
	random := rand.New(rand.NewPCG(1, 1))
	var wishes []*crashWish
	for _, client := range []string{"stays", "is-off", "goes", "is-half"} {
		w := &crashWish{Name: crashName(random), Client: client, On: true, Users: []string{"alice"}}
		wishes = append(wishes, w)
	}
	for _, w := range wishes[:3] {
		s.insist(w)
	}
	s.settle(wishes[:3])
	wishes[1].On = false
	s.insist(wishes[1])
	s.settle(wishes[:3])
	syscall.Sync()
	// These are accepted, and then the power is cut.
	wishes[2].Removed = true
	b, err := json.Marshal(wishes)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "wishes.json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(s.dir, "wishes.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s.insist(wishes[2])
	s.insist(wishes[3])
}

func TestAfterThePowerCut(t *testing.T) {
	s := bootSite(t)
	b, err := os.ReadFile(filepath.Join(s.dir, "wishes.json"))
	var wishes []*crashWish
	if err == nil {
		err = json.Unmarshal(b, &wishes)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.settle(wishes)
	if s.healed > 0 {
		t.Errorf("%d nodes said that they failed, though all had been synced", s.healed)
	}
	wishes[1].On = true // its file must be there, too
	s.insist(wishes[1])
	s.settle(wishes)
	s.removeAll(wishes)
	s.stop(syscall.SIGTERM)
}
