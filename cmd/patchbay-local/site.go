package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"patchbay/inventory/local"
	"patchbay/inventory/local/testbed"
)

// siteFlags are the flags of commands about the testbed of a settings file.
type siteFlags struct {
	state string
}

func (f *siteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.state, "state", "", "folder of the nodes' state (default: "+testbed.Root+"/INSTANCE)")
}

// read gives the settings and the absolute path of the state folder.
func (f *siteFlags) read(path string) (s local.Settings, state string, err error) {
	if s, err = local.ReadSettings(path); err != nil {
		return s, "", err
	}
	if f.state == "" {
		return s, testbed.DefaultState(s.Instance), nil
	}
	state, err = filepath.Abs(f.state)
	return s, state, err
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root: run it with sudo")
	}
	return nil
}
