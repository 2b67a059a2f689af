package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"patchbay/am/store"
	"patchbay/am/testkit/need"
)

func TestMain(m *testing.M) { os.Exit(need.NoLeaks(m)) }

// boltPlace is a file in a folder of its own.
type boltPlace struct {
	t    *testing.T
	path string
}

func newBolt(t *testing.T) boltPlace {
	return boltPlace{t, filepath.Join(t.TempDir(), "store.db")}
}

func (p boltPlace) Open() (store.Engine, error) { return store.OpenBolt(p.path) }

// Crash copies what the file is: between two Applies nothing is on its way.
func (p boltPlace) Crash() (Place, error) {
	b, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	c := newBolt(p.t)
	return c, os.WriteFile(c.path, b, 0o600)
}

func TestBolt(t *testing.T) { Run(t, func(t *testing.T) Place { return newBolt(t) }) }

func TestMemory(t *testing.T) { Run(t, func(t *testing.T) Place { return new(Memory) }) }
