package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
)

// run executes the command line and gives the exit status.
func run(ctx context.Context, args []string, c console) int {
	out := &site.Output{To: c.out}
	c.out = out
	root := rootCommand(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if lost := out.WriteError(); lost != nil && (err == nil || errors.Is(err, lost)) {
		err = fmt.Errorf("the command has ended, but not all of its output can be written: %w", lost)
	}
	return report(err, c)
}

// renamedFlags maps the flags that have a new name to that name.
var renamedFlags = map[string]string{"unpromised": "orphans", "believe": "trust"}

// rootCommand makes the command patchbay with all its subcommands.
func rootCommand(c console) *cobra.Command {
	root := &cobra.Command{
		Use:           "patchbay",
		Short:         "A GENI/Fed4FIRE aggregate manager and its operator's tools",
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
	root.AddGroup(groups...)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if e, ok := errors.AsType[*pflag.NotExistError](err); ok && renamedFlags[e.GetSpecifiedName()] != "" {
			err = fmt.Errorf("--%s is now called --%s", e.GetSpecifiedName(), renamedFlags[e.GetSpecifiedName()])
		}
		return &usageError{cmd, err}
	})
	for _, s := range []struct {
		use, short, long string
		options          options
	}{
		{"up [REQUEST]", "Make an experiment, and show how to log in", upLong, &upOptions{}},
		{"ssh NODE [COMMAND …]", "Log in to a node", sshLong, &sshOptions{}},
		{"status", "Show your experiments", statusLong, &statusOptions{}},
		{"extend [SLICE] TIME", "Keep an experiment for longer", extendLong, &extendOptions{}},
		{"down [SLICE …]", "Give an experiment back", downLong, &downOptions{}},
		{"init DIR", "Make a site in a new folder", initLong, &initOptions{}},
		{"serve", "Serve a site", serveLong, &serveOptions{}},
		{"user NAME …", "Make users of the trial authority", userLong, &userOptions{}},
		{"slice NAME --owner USER", "Make a slice of the trial authority", sliceLong, &sliceOptions{}},
		{"delegate SLICE --from USER --to RECEIVER", "Delegate a slice to another user or tool", delegateLong, &delegateOptions{}},
		{"tool NAME --for USER", "Make a tool that may speak for a user", toolLong, &toolOptions{}},
		{"call METHOD [ARG …]", "Call an aggregate manager", callLong, &callOptions{}},
		{"demo", "See the whole life of an experiment", demoLong, &demoOptions{}},
		{"check [FILE …]", "Explain what is wrong with a site or an RSpec", checkLong, &checkOptions{}},
		{"import AD", "Make an inventory of an aggregate's advertisement", importLong, &importOptions{}},
		{"draw FILE", "Draw a request, a manifest or an advertisement", drawLong, &drawOptions{}},
		{"reload", "Have a running server take over the changed inventory", reloadLong, &reloadOptions{}},
		{"lockdown [--reason TEXT]", "Take no new work", lockdownLong, &lockdownOptions{}},
		{"maintenance [COMPONENT … --reason TEXT]", "Plan maintenance of components", maintenanceLong, &maintenanceOptions{}},
		{"clock", "Show which clock leases follow", clockLong, &clockOptions{}},
		{"slices [PATTERN]", "List slices", slicesLong, &slicesOptions{}},
		{"slivers [PATTERN]", "List slivers, and who has them until when", sliversLong, &sliversOptions{}},
		{"nodes [PATTERN]", "List nodes, and what is taken of them", nodesLong, &nodesOptions{}},
		{"tasks [PATTERN]", "List pending provider tasks", tasksLong, &tasksOptions{}},
		{"journal [PATTERN]", "List what was done, and by whom", journalLong, &journalOptions{}},
		{"usage [--from TIME --until TIME]", "List node-hours by user and project", usageLong, &usageOptions{}},
		{"manifest SLICE", "Print the manifest of a slice", manifestLong, &manifestOptions{}},
		{"release TARGET …", "Take slivers from their users", releaseLong, &releaseOptions{}},
		{"renew TARGET …", "Change the end of leases", renewLong, &renewOptions{}},
		{"drain [COMPONENT …]", "Take components out of service; existing slivers stay", drainLong, &drainOptions{}},
		{"undrain COMPONENT …", "Put drained components back into service", undrainLong, &drainOptions{lift: true}},
		{"thaw [SLICE]", "Lift the shutdown of a slice", thawLong, &thawOptions{}},
		{"backup FILE", "Back up the database of a site", backupLong, &backupOptions{}},
		{"move", "Let a copy of a site take its place", moveLong, &moveOptions{}},
		{"restore FILE", "Restore the database of a site from a backup", restoreLong, &restoreOptions{}},
		{"who ADDRESS[:PORT] [FILE …]", "Find who used an IP address at a given time", whoLong, &whoOptions{}},
		{"guide [TOPIC]", "Read a guide", guideLong, &guideOptions{}},
		{"version", "Print the version", "", &versionOptions{}},
	} {
		cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, DisableFlagsInUseLine: true}
		help := helps[cmd.Name()]
		cmd.GroupID, cmd.Example = help.group, help.example
		s.options.AddFlags(cmd.Flags())
		complete(cmd, s.options)
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := s.options.Validate(args); err != nil {
				return &usageError{cmd, err}
			}
			return s.options.Run(cmd.Context(), c)
		}
		root.AddCommand(cmd)
	}
	root.AddCommand(&cobra.Command{Use: "patterns", Short: "How PATTERN and TIME are written", Long: patternsLong})
	return root
}

func unknownCommand(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("there is no command %q", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, near[0])
	}
	return err
}

// report says what went wrong and gives the exit status for it.
func report(err error, c console) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	fmt.Fprintf(c.err, "patchbay: %s\n", display.Printable(err.Error())) // an aggregate's words may be in it
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[*site.ConfigError](err); ok {
		return 2
	}
	return 1
}
