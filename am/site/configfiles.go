package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkFiles makes sure that what the configuration names is there. The error
// joins a *configError, with the line of the key, for each that is not.
func (c *Config) checkFiles() error {
	return errors.Join(c.CheckKeyFiles(), c.CheckFile("inventory", c.Inventory), c.CheckFolder("trusted", c.Trusted),
		c.CheckFolder("providers", c.Providers), c.CheckState(), c.CheckAudit())
}

func (c *Config) CheckKeyFiles() error {
	var errs []error
	for i, pair := range c.Keys {
		where := c.Origin.Where(fmt.Sprintf("keys.%d", i))
		for _, f := range [][2]string{{"certificate", pair.Certificate}, {"key", pair.Key}} {
			if _, err := os.Stat(f[1]); err != nil {
				errs = append(errs, &ConfigError{where, "keys", notThere(f[0], f[1], err)})
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Config) CheckFile(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.wrong(key, "%s", notThere("file", path, err))
	case info.IsDir():
		return c.Origin.wrong(key, "%s is a folder; name a file", path)
	}
	return nil
}

func (c *Config) CheckFolder(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.wrong(key, "%s", notThere("folder", path, err))
	case !info.IsDir():
		return c.Origin.wrong(key, "%s is no folder; name the folder", path)
	}
	return nil
}

// CheckState makes sure that the store can be made, or changed where it is.
func (c *Config) CheckState() error {
	dir := filepath.Dir(c.State)
	if err := c.CheckFolder("state", dir); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return c.Origin.wrong("state", "this user cannot write into %s (%v); give it the right, or name a file elsewhere", dir, err)
	}
	info, err := os.Stat(c.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return c.Origin.wrong("state", "%v", err)
	case !info.Mode().IsRegular():
		return c.Origin.wrong("state", "%s is not a regular file; name one that is, or will be", c.State)
	}
	if err := unix.Access(c.State, unix.R_OK|unix.W_OK); err != nil {
		return c.Origin.wrong("state", "this user cannot change %s (%v); give it the right", c.State, err)
	}
	return nil
}

// CheckAudit makes sure that the audit can be made, or written on.
func (c *Config) CheckAudit() error {
	dir := filepath.Dir(c.Audit)
	if err := c.CheckFolder("audit", dir); err != nil {
		return err
	}
	info, err := os.Stat(c.Audit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return c.Origin.wrong("audit", "this user cannot write into %s (%v); give it the right, or name a file elsewhere", dir, err)
		}
		return nil
	case err != nil:
		return c.Origin.wrong("audit", "%v", err)
	case !info.Mode().IsRegular():
		return c.Origin.wrong("audit", "%s is not a regular file; name one that is, or will be", c.Audit)
	}
	if err := unix.Access(c.Audit, unix.R_OK|unix.W_OK); err != nil {
		return c.Origin.wrong("audit", "this user cannot read and write %s (%v); give it the right", c.Audit, err)
	}
	return nil
}

func notThere(what, path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the %s %s does not exist; make it, or correct the name", what, path)
	}
	return fmt.Sprintf("the %s cannot be looked at: %v", what, err)
}
