package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/testbed"
)

type siteFlags struct {
	state string
}

func (f *siteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.state, "state", "", "folder of the nodes' state (default: "+testbed.Root+"/INSTANCE)")
}

// read returns the settings and the absolute path of the state folder.
func (f *siteFlags) read(path string) (s local.Settings, state string, err error) {
	if s, err = readSettings(path); err != nil {
		return s, "", err
	}
	if f.state == "" {
		return s, testbed.DefaultState(s.Instance), nil
	}
	state, err = filepath.Abs(f.state)
	return s, state, err
}

// readSettings reads settings like local.ReadSettings, but fails if the file does not exist.
// With default settings, a command would act on another testbed.
func readSettings(path string) (local.Settings, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return local.Settings{}, fmt.Errorf("%s does not exist; SETTINGS is the local.yaml in the folder providers of a site", path)
	}
	return local.ReadSettings(path)
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root: run it with sudo")
	}
	return nil
}
