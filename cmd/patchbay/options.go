package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
)

type console struct{ out, err io.Writer }

type options interface {
	AddFlags(*pflag.FlagSet)
	// Validate takes the arguments that are not flags. Its error is a usage error.
	Validate(args []string) error
	Run(context.Context, console) error
}

// usageError is for a wrong command line. Its text ends with the command that prints help.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string {
	path := strings.Fields(e.cmd.CommandPath())
	text := e.err.Error()
	if rest, ok := strings.CutPrefix(text, "it takes "); ok {
		text = e.cmd.Name() + " takes " + rest
	}
	return fmt.Sprintf("%s\nsee: %s", text, display.Command(append(path[1:], "--help")...))
}

// exitError is an exit status of the program. It prints no message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

type siteFlag struct {
	file  string
	flags *pflag.FlagSet
}

// isGiven reports whether the user named the site, with --config or PATCHBAY_CONFIG.
func (f *siteFlag) isGiven() bool {
	return f.flags != nil && f.flags.Changed("config") || os.Getenv(site.EnvPrefix+"CONFIG") != ""
}

func (f *siteFlag) AddFlags(fs *pflag.FlagSet) {
	f.flags = fs
	file := os.Getenv(site.EnvPrefix + "CONFIG")
	if file == "" {
		file = site.ConfigName
	}
	fs.StringVar(&f.file, "config", file, "the site's configuration, or its folder; also PATCHBAY_CONFIG")
}

func (f *siteFlag) path() string {
	if isFolder(f.file) {
		return filepath.Join(f.file, site.ConfigName)
	}
	return f.file
}

// folder returns the folder of the site; "" without a configuration file.
func (f *siteFlag) folder() string {
	if info, err := os.Stat(f.path()); err != nil || info.IsDir() {
		return ""
	}
	return filepath.Dir(f.path())
}

func (f *siteFlag) hint(args ...string) string {
	if !f.isGiven() && f.file == site.ConfigName { // another file is the user's own site
		return display.Command(args...)
	}
	return display.CommandAt(f.file, args...)
}

// readFile ignores environment variables if the file belongs to the user's own site and no
// site was named. The own site's server also ignores them.
func (f *siteFlag) readFile(file string) (*site.Config, error) {
	own, err := findOwnSite()
	if path, pathErr := filepath.Abs(file); err == nil && pathErr == nil && !f.isGiven() && path == own.file() {
		return own.read()
	}
	return site.ReadConfig(file)
}

// read returns an error that suggests the user's own site, if the own site exists and no
// configuration is found.
func (f *siteFlag) read() (*site.Config, error) {
	c, err := f.readFile(f.path())
	if err == nil || f.isGiven() || f.folder() != "" {
		return c, err
	}
	if own, ownErr := findOwnSite(); ownErr == nil && own.exists() {
		return nil, fmt.Errorf("%w; to use the site that \"patchbay up\" created for you, add --config %s", err, display.ShellWord(own.dir))
	}
	return nil, err
}

// optional returns the site of --config, PATCHBAY_CONFIG or the current folder. Without a site, it
// returns nil.
func (f *siteFlag) optional() (*site.Config, error) {
	if _, err := os.Stat(f.path()); err != nil && !f.isGiven() {
		return nil, nil
	}
	return site.ReadConfig(f.path())
}

// noArguments fails for any argument. If the first argument is the folder of a site, the
// error suggests --config.
func noArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if exists(filepath.Join(args[0], site.ConfigName)) {
		return fmt.Errorf("it takes no argument; did you mean --config %s?", display.ShellWord(args[0]))
	}
	return fmt.Errorf("it takes no argument, not %q", args[0])
}

// oneArgument fails for no argument or several. The error contains the description.
func oneArgument(args []string, description string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("it takes one argument, %s", description)
	}
	return args[0], nil
}
