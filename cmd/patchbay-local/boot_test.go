package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A boot cannot be had in one test: am/testkit/guest runs one of the first
// two, cuts the power, and runs the third on the same disk. PATCHBAY_BOOT is a
// folder on it.
func bootSite(t *testing.T) *crashSite {
	t.Helper()
	dir := os.Getenv("PATCHBAY_BOOT")
	if dir == "" {
		t.Skip("PATCHBAY_BOOT names no folder that lives on after a boot; am/testkit/guest sets it")
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
	keepWishes(s, wishes)
	s.insist(wishes[2])
	s.insist(wishes[3])
}

// Nothing is synced but what the testbed and the node sync themselves. The
// image has just been made.
func TestBeforeASuddenPowerCut(t *testing.T) {
	s := bootSite(t)
	s.start()
	wishes := []*crashWish{{Name: crashName(rand.New(rand.NewPCG(1, 2))), Client: "first", On: true, Users: []string{"alice"}}}
	s.insist(wishes[0])
	s.settle(wishes)
	keepWishes(s, wishes)
}

// keepWishes writes down for the next boot what was asked.
func keepWishes(s *crashSite, wishes []*crashWish) {
	s.t.Helper()
	b, err := json.Marshal(wishes)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(s.dir, "wishes.json"))
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
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
		t.Errorf("%d nodes said that they failed", s.healed)
	}
	for _, w := range wishes { // the files of those that are off must be there, too
		if !w.On && !w.Removed {
			w.On = true
			s.insist(w)
		}
	}
	s.settle(wishes)
	s.removeAll(wishes)
	s.stop(syscall.SIGTERM)
}
