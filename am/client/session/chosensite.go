package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"patchbay/am/client/ownsite"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
)

// ChosenSite is the site of this host that a command line names. It is the value of the flag
// --config: it implements the interface pflag.Value.
type ChosenSite struct {
	// File is the site's configuration, or its folder.
	File string
	// IsFlag is true if the flag was given.
	IsFlag bool
}

// Set is called for the flag.
func (f *ChosenSite) Set(file string) error {
	f.File, f.IsFlag = file, true
	return nil
}

// String returns the file.
func (f *ChosenSite) String() string { return f.File }

// Type returns the type of the flag's value for help texts.
func (f *ChosenSite) Type() string { return "string" }

// IsGiven reports whether the user named the site, with --config or PATCHBAY_CONFIG.
func (f *ChosenSite) IsGiven() bool {
	return f.IsFlag || os.Getenv(site.EnvPrefix+"CONFIG") != ""
}

// Path returns the configuration file.
func (f *ChosenSite) Path() string {
	if userfolder.IsFolder(f.File) {
		return filepath.Join(f.File, site.ConfigName)
	}
	return f.File
}

// folder returns the folder of the site; "" without a configuration file.
func (f *ChosenSite) folder() string {
	if info, err := os.Stat(f.Path()); err != nil || info.IsDir() {
		return ""
	}
	return filepath.Dir(f.Path())
}

// Hint returns a command line about the site.
func (f *ChosenSite) Hint(args ...string) string {
	if !f.IsGiven() && f.File == site.ConfigName { // another file is the user's own site
		return display.Command(args...)
	}
	return display.CommandAt(f.File, args...)
}

// ReadFile reads a configuration. It ignores environment variables if the file belongs to the user's own site and no
// site was named. The own site's server also ignores them.
func (f *ChosenSite) ReadFile(file string) (*site.Config, error) {
	own, err := ownsite.Find()
	if path, pathErr := filepath.Abs(file); err == nil && pathErr == nil && !f.IsGiven() && path == own.File() {
		return own.Read()
	}
	return site.ReadConfig(file)
}

// Read reads the configuration of the site. If none is found and the user's own site exists, the error
// suggests the own site.
func (f *ChosenSite) Read() (*site.Config, error) {
	c, err := f.ReadFile(f.Path())
	if err == nil || f.IsGiven() || f.folder() != "" {
		return c, err
	}
	if own, ownErr := ownsite.Find(); ownErr == nil && own.Exists() {
		return nil, fmt.Errorf("%w; to use the site that \"patchbay up\" created for you, add --config %s", err, display.ShellWord(own.Dir))
	}
	return nil, err
}

// Optional returns the site of --config, PATCHBAY_CONFIG or the current folder. Without a site, it
// returns nil.
func (f *ChosenSite) Optional() (*site.Config, error) {
	if _, err := os.Stat(f.Path()); err != nil && !f.IsGiven() {
		return nil, nil
	}
	return site.ReadConfig(f.Path())
}

// UserNames returns the users of the site that have a folder.
func (f *ChosenSite) UserNames() []string {
	dir := f.folder()
	if dir == "" {
		return nil
	}
	return userfolder.Users(filepath.Join(dir, site.UsersDir))
}

// LockTrial opens the trial authority for writing: that of the site of --config or of the current
// folder, else that of the user's own site. Other commands that write to it wait until unlock is called.
func (f *ChosenSite) LockTrial(ctx context.Context, messages io.Writer) (t *userfolder.Trial, unlock func(), err error) {
	if own := (&Selection{Site: f, prepare: func(own ownsite.Site) (ownsite.Site, error) { return own.Choose(ctx, messages, false) }}); !own.isNamed() {
		o, err := own.findOwn()
		if err == nil && !o.Exists() && o.UserFolder() != "" {
			err = errors.New("your own site belongs to root; repeat the command with sudo")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	config, err := f.Read()
	if err != nil {
		return nil, nil, err
	}
	if t, err = userfolder.OpenTrial(ctx, config); err != nil {
		return nil, nil, err
	}
	unlock, err = userfolder.Lock(ctx, t.Dir, messages)
	return t, unlock, err
}

// IsService reports whether the Debian package's services use the site in dir.
func IsService(dir string) bool {
	return dir == "/var/lib/patchbay" && userfolder.FileExists("/usr/lib/systemd/system/patchbay.service")
}

// ServeCommand returns the command line that serves the site of a configuration file.
func ServeCommand(config string) string {
	if IsService(filepath.Dir(config)) {
		return "sudo systemctl enable --now patchbay"
	}
	return display.CommandAt(config, "serve")
}
