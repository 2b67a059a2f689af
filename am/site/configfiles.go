package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
)

// checkFiles joins a *ConfigError for each file that does not exist.
func (c *Config) checkFiles() error {
	return errors.Join(c.CheckKeyFiles(), c.CheckFile("inventory", c.Inventory), c.CheckFolder("trusted", c.Trusted),
		c.CheckFolder("providers", c.Providers), c.CheckState(), c.CheckAudit(), c.CheckMetrics(), c.CheckWeb())
}

// CheckKeyFiles checks that the files of the server's certificates and private keys exist.
func (c *Config) CheckKeyFiles() error {
	var errs []error
	for i, pair := range c.Keys {
		where := c.Origin.Where(fmt.Sprintf("keys[%d]", i))
		for _, f := range [][2]string{{"certificate", pair.Certificate}, {"key", pair.Key}} {
			if _, err := os.Stat(f[1]); err != nil {
				errs = append(errs, &ConfigError{where, "keys", missingMessage(f[0], f[1], err)})
			}
		}
	}
	return errors.Join(errs...)
}

// CheckFile checks that path, the value of key, is an existing file.
func (c *Config) CheckFile(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.errorf(key, "%s", missingMessage("file", path, err))
	case info.IsDir():
		return c.Origin.errorf(key, "%s is a folder; name a file", path)
	}
	return nil
}

// CheckFolder checks that path, the value of key, is an existing folder.
func (c *Config) CheckFolder(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.errorf(key, "%s", missingMessage("folder", path, err))
	case !info.IsDir():
		return c.Origin.errorf(key, "%s is not a folder; name a folder", path)
	}
	return nil
}

// CheckState checks that the store can be created or written. The store's folder must be
// writable, too, because the server creates other files there.
func (c *Config) CheckState() error { return c.checkWritten("state", c.State, true) }

// CheckAudit checks that the audit can be created or appended to.
func (c *Config) CheckAudit() error { return c.checkWritten("audit", c.Audit, false) }

// checkWritten requires that the file of a key can be created, or read and written. needsFolder
// requires a writable folder even if the file exists.
func (c *Config) checkWritten(key, path string, needsFolder bool) error {
	dir := filepath.Dir(path)
	if err := c.CheckFolder(key, dir); err != nil {
		return err
	}
	info, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew || needsFolder {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return c.Origin.errorf(key, "%s; or name a file elsewhere", notWritableMessage(dir, err))
		}
	}
	switch {
	case isNew:
		return nil
	case err != nil:
		return c.Origin.errorf(key, "%v", err)
	case !info.Mode().IsRegular():
		return c.Origin.errorf(key, "%s is not a regular file; name a regular file or a new one", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return c.Origin.errorf(key, "%s", notWritableMessage(path, err))
	}
	return nil
}

func notWritableMessage(path string, err error) string {
	if !errors.Is(err, unix.EACCES) {
		return fmt.Sprintf("%s is not writable (%v)", path, err)
	}
	name := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s is not writable by user %s: %s", path, name, display.AsRoot("chown", name, path))
}

// missingMessage is for a file or folder that does not exist or cannot be read.
func missingMessage(label, path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the %s %s does not exist; create it, or correct the name", label, path)
	}
	return fmt.Sprintf("the %s cannot be read: %v", label, err)
}
