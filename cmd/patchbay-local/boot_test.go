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

// One test cannot contain a boot: make guest runs one of the first two tests, cuts
// the power, and runs the third on the same disk. PATCHBAY_BOOT is a folder on it.
func bootSite(t *testing.T) *crashSite {
	t.Helper()
	dir := os.Getenv("PATCHBAY_BOOT")
	if dir == "" {
		t.Skip("PATCHBAY_BOOT names no folder that lives on after a boot; make guest sets it")
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
	var wishes []*desiredNode
	for _, client := range []string{"stays", "is-off", "goes", "is-half"} {
		w := &desiredNode{Name: crashName(random), Client: client, On: true, Users: []string{"alice"}}
		wishes = append(wishes, w)
	}
	for _, w := range wishes[:3] {
		s.setUntilAccepted(w)
	}
	s.waitSettled(wishes[:3])
	wishes[1].On = false
	s.setUntilAccepted(wishes[1])
	s.waitSettled(wishes[:3])
	syscall.Sync()
	// These are accepted before the power is cut.
	wishes[2].Removed = true
	saveDesired(s, wishes)
	s.setUntilAccepted(wishes[2])
	s.setUntilAccepted(wishes[3])
}

// Only the testbed and the node sync files. The image is new.
func TestBeforeASuddenPowerCut(t *testing.T) {
	s := bootSite(t)
	s.start()
	wishes := []*desiredNode{{Name: crashName(rand.New(rand.NewPCG(1, 2))), Client: "first", On: true, Users: []string{"alice"}}}
	s.setUntilAccepted(wishes[0])
	s.waitSettled(wishes)
	saveDesired(s, wishes)
}

// saveDesired saves the desired nodes for the test after the boot.
func saveDesired(s *crashSite, wishes []*desiredNode) {
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
	var wishes []*desiredNode
	if err == nil {
		err = json.Unmarshal(b, &wishes)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.waitSettled(wishes)
	if s.healed > 0 {
		t.Errorf("%d nodes said that they failed", s.healed)
	}
	for _, w := range wishes { // the files of nodes that are off must exist, too
		if !w.On && !w.Removed {
			w.On = true
			s.setUntilAccepted(w)
		}
	}
	s.waitSettled(wishes)
	s.removeAll(wishes)
	s.stop(syscall.SIGTERM)
}
