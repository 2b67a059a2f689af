package command

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

// A Command is a subcommand of patchbay. The group of a command is that of its package.
type Command struct {
	Use, Short, Long, Example string
	Options                   Options
	Arguments                 Completer // nil: the shell completes file names
}

// A Console is where a command prints its results and its messages.
type Console struct{ Out, Err io.Writer }

// Options are the flags and arguments of a command.
type Options interface {
	AddFlags(*pflag.FlagSet)
	// Validate takes the arguments that are not flags. Its error is a usage error.
	Validate(args []string) error
	Run(context.Context, Console) error
}

// ExitError is an exit status of the program. It prints no message.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// SiteFlag is the flag --config. It keeps the flags of its command.
type SiteFlag struct {
	session.ChosenSite
	Flags *pflag.FlagSet
}

// AddFlags adds --config.
func (f *SiteFlag) AddFlags(fs *pflag.FlagSet) {
	f.Flags, f.File = fs, cmp.Or(os.Getenv(site.EnvPrefix+"CONFIG"), site.ConfigName)
	fs.Var(&f.ChosenSite, "config", "the site's configuration, or its folder; also PATCHBAY_CONFIG")
}

// NoArguments fails for any argument. If the first argument is the folder of a site, the
// error suggests --config.
func NoArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if userfolder.FileExists(filepath.Join(args[0], site.ConfigName)) {
		return fmt.Errorf("it takes no argument; did you mean --config %s?", display.ShellWord(args[0]))
	}
	return fmt.Errorf("it takes no argument, not %q", args[0])
}

// OneArgument fails for no argument or several. The error contains the description.
func OneArgument(args []string, description string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("it takes one argument, %s", description)
	}
	return args[0], nil
}
