package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

// run executes a command line, prints its error, and returns the exit status. A failed write to standard
// output is an error, too.
func run(ctx context.Context, args []string, c command.Console) int {
	out := &site.Output{To: c.Out}
	c.Out = out
	root := rootCommand(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if lost := out.WriteError(); lost != nil && (err == nil || errors.Is(err, lost)) {
		err = fmt.Errorf("the command has ended, but not all of its output can be written: %w", lost)
	}
	return report(err, c)
}

var renamedFlags = map[string]string{"unpromised": "orphans", "believe": "trust"}

func rootCommand(c command.Console) *cobra.Command {
	root := &cobra.Command{
		Use:   "patchbay",
		Short: "A GENI/Fed4FIRE aggregate manager and its operator's tools",
		Long: `A GENI/Fed4FIRE aggregate manager and its operator's tools.
"patchbay guide" lists the guides; begin with: patchbay guide experimenter`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionLine(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{cmd, unknownCommand(cmd, args[0])}
			}
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetFlagErrorFunc(flagError)
	for _, g := range groups() {
		if g.title != "" {
			root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		}
		for _, s := range g.commands {
			cmd := &cobra.Command{Use: s.Use, Short: s.Short, Long: s.Long, Example: s.Example, GroupID: g.id, DisableFlagsInUseLine: true}
			s.Options.AddFlags(cmd.Flags())
			if s.Example != "" {
				cmd.SetHelpTemplate(helpTemplate(s.Long))
			}
			command.Complete(cmd, s)
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if err := s.Options.Validate(args); err != nil {
					return &usageError{cmd, err}
				}
				return s.Options.Run(cmd.Context(), c)
			}
			root.AddCommand(cmd)
		}
	}
	refuseUnknownHelp(root)
	root.AddCommand(&cobra.Command{Use: "patterns", Short: "How PATTERN and TIME are written", Long: patternsLong})
	return root
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

func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if name := e.GetSpecifiedName(); renamedFlags[name] != "" {
			err = fmt.Errorf("--%s is now called --%s", name, renamedFlags[name])
		} else if near := display.Suggest(name, names); near != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return &usageError{cmd, err}
}

// refuseUnknownHelp makes "patchbay help NAME" fail if there is no command NAME.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return &usageError{root, unknownCommand(root, args[0])}
				}
				return about.Help()
			}
		}
	}
}

// otherNames maps names of commands in other tools to the commands here.
var otherNames = map[string]string{
	"create": "up", "run": "up", "delete": "down", "remove": "down", "stop": "down", "destroy": "down",
	"login": "ssh", "connect": "ssh", "list": "status", "ls": "status", "show": "status",
}

// removedCommands has the commands of earlier releases, and what to do instead.
var removedCommands = map[string]string{
	"clock":  "\"patchbay check\" reports a clock that is not trusted, and \"patchbay reload\" trusts it",
	"import": "write inventory.yaml by hand, and name each component as its component_id ends, so that saved requests still work; see \"Move an existing aggregate here\" in \"patchbay guide operator\"",
}

func unknownCommand(root *cobra.Command, name string) error {
	if instead := removedCommands[name]; instead != "" {
		return fmt.Errorf("the command %q was removed: %s", name, instead)
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	other := otherNames[name]
	if slices.Contains(guideTopics(), name) {
		other = "guide " + name
	}
	err := fmt.Errorf("there is no command %q", name)
	if near := cmp.Or(other, display.Suggest(name, names)); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return err
}

func report(err error, c command.Console) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[command.ExitError](err); ok {
		return int(code)
	}
	fmt.Fprintf(c.Err, "patchbay: %s\n", display.Printable(err.Error())) // a part of the text may come from an aggregate
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[*site.ConfigError](err); ok {
		return 2
	}
	return 1
}
