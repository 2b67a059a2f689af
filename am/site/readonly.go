package site

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"patchbay/am/store"
)

// ReadOnlyCopy is the configuration of a server that shows a site and changes nothing:
// its store, and all that it writes, is in a temporary folder. done removes that.
func (c *Config) ReadOnlyCopy() (_ *Config, done func(), err error) {
	if has, err := c.HasState(); err != nil {
		return nil, nil, err
	} else if !has {
		return nil, nil, fmt.Errorf("there is no %s: %w", c.State, ErrNeverServed)
	}
	dir, err := os.MkdirTemp("", "patchbay-read-only-")
	if err != nil {
		return nil, nil, err
	}
	look := *c
	look.readOnly = true
	look.State, look.Audit = filepath.Join(dir, "state.db"), filepath.Join(dir, "audit.log")
	f, err := os.OpenFile(look.State, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(store.Backup(c.State, f), f.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot copy the store to look into it: %w; TMPDIR names another folder for that", err), os.RemoveAll(dir))
	}
	return &look, func() { os.RemoveAll(dir) }, nil
}
