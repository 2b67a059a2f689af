package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
)

// A command is one of patchbay's.
type command struct {
	Use, Short, Long, Example string
	Options                   options
	Arguments                 completer // nil: the shell completes file names
}

type console struct{ out, err io.Writer }

type options interface {
	AddFlags(*pflag.FlagSet)
	// Validate takes the arguments that are not flags. Its error is a usage error.
	Validate(args []string) error
	Run(context.Context, console) error
}

// exitError is an exit status of the program. It prints no message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// siteFlag is the flag --config. It keeps the flags of its command.
type siteFlag struct {
	session.ChosenSite
	flags *pflag.FlagSet
}

func (f *siteFlag) AddFlags(fs *pflag.FlagSet) {
	f.flags, f.File = fs, cmp.Or(os.Getenv(site.EnvPrefix+"CONFIG"), site.ConfigName)
	fs.Var(&f.ChosenSite, "config", "the site's configuration, or its folder; also PATCHBAY_CONFIG")
}

// noArguments fails for any argument. If the first argument is the folder of a site, the
// error suggests --config.
func noArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if userfolder.FileExists(filepath.Join(args[0], site.ConfigName)) {
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
