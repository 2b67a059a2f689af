package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
)

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

var renamedFlags = map[string]string{"unpromised": "orphans", "believe": "trust"}

func rootCommand(c console) *cobra.Command {
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
	root.AddGroup(groups...)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetFlagErrorFunc(flagError)
	for _, s := range commands() {
		cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, DisableFlagsInUseLine: true}
		help := helps[cmd.Name()]
		cmd.GroupID, cmd.Example = help.group, help.example
		s.options.AddFlags(cmd.Flags())
		if help.example != "" {
			cmd.SetHelpTemplate(helpTemplate(s.long))
		}
		complete(cmd, s.options)
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := s.options.Validate(args); err != nil {
				return &usageError{cmd, err}
			}
			return s.options.Run(cmd.Context(), c)
		}
		root.AddCommand(cmd)
	}
	refuseUnknownHelp(root)
	root.AddCommand(&cobra.Command{Use: "patterns", Short: "How PATTERN and TIME are written", Long: patternsLong})
	return root
}

type command struct {
	use, short, long string
	options          options
}

func commands() []command {
	return []command{
		{"up [REQUEST]", "Create an experiment, and show how to log in", upLong, &upOptions{}},
		{"ssh NODE [COMMAND …]", "Log in to a node", sshLong, &sshOptions{}},
		{"status [SLICE …]", "Show your experiments", statusLong, &statusOptions{}},
		{"extend [SLICE] TIME", "Keep an experiment for longer", extendLong, &extendOptions{}},
		{"export [SLICE]", "Describe the nodes of an experiment for other programs", exportLong, &exportOptions{}},
		{"down [SLICE …]", "Delete the nodes of an experiment", downLong, &downOptions{}},
		{"init DIR", "Create a site in a new folder", initLong, &initOptions{}},
		{"serve", "Serve a site", serveLong, &serveOptions{}},
		{"user NAME …", "Create users of the trial authority", userLong, &userOptions{}},
		{"slice NAME --owner USER", "Create a slice of the trial authority", sliceLong, &sliceOptions{}},
		{"share SLICE PARTNER", "Share a slice and the logins on its nodes with another user", shareLong, &shareOptions{}},
		{"delegate SLICE --from USER --to RECEIVER", "Delegate a slice to another user or tool", delegateLong, &delegateOptions{}},
		{"tool NAME [--for USER]", "Create a tool, which may speak for a user", toolLong, &toolOptions{}},
		{"login URL CODE", "Become a member of an authority, with an invitation", loginLong, &loginOptions{}},
		{"authority ACTION", "Manage members, slices and invitations", authorityLong, &authorityOptions{}},
		{"call METHOD [ARG …]", "Call an aggregate manager", callLong, &callOptions{}},
		{"probe [URL]", "Check what an aggregate manager keeps of its specifications", probeLong, &probeOptions{}},
		{"demo", "Run a whole experiment, as a demonstration", demoLong, &demoOptions{}},
		{"check [FILE …]", "Find mistakes in a site or an RSpec", checkLong, &checkOptions{}},
		{"compile FILE", "Compile RADL or a blueprint to a request", compileLong, &compileOptions{}},
		{"draw FILE", "Draw a request, a manifest or an advertisement", drawLong, &drawOptions{}},
		{"reload", "Make a running server read its inventory again", reloadLong, &reloadOptions{}},
		{"lockdown [--reason TEXT]", "Accept no new reservations", lockdownLong, &lockdownOptions{}},
		{"maintenance [COMPONENT … --reason TEXT]", "Plan maintenance of components", maintenanceLong, &maintenanceOptions{}},
		{"slices [PATTERN]", "List slices", slicesLong, &slicesOptions{}},
		{"slivers [PATTERN]", "List slivers, with their users and leases", sliversLong, &sliversOptions{}},
		{"nodes [PATTERN]", "List nodes, with their state and use", nodesLong, &nodesOptions{}},
		{"tasks [PATTERN]", "List pending provider tasks", tasksLong, &tasksOptions{}},
		{"journal [PATTERN]", "List past operations, with their users", journalLong, &journalOptions{}},
		{"usage [--from TIME --until TIME]", "List node-hours by user and project", usageLong, &usageOptions{}},
		{"manifest SLICE", "Print the manifest of a slice", manifestLong, &manifestOptions{}},
		{"release TARGET …", "Take slivers from their users", releaseLong, &releaseOptions{}},
		{"renew TARGET …", "Change the end of leases", renewLong, &renewOptions{}},
		{"drain [COMPONENT …]", "Take components out of service; existing slivers stay", drainLong, &drainOptions{}},
		{"undrain COMPONENT …", "Put drained components back into service", undrainLong, &drainOptions{lift: true}},
		{"thaw [SLICE]", "Lift the shutdown of a slice", thawLong, &thawOptions{}},
		{"backup FILE", "Back up the database of a site", backupLong, &backupOptions{}},
		{"move", "Declare that a copied site is now the original", moveLong, &moveOptions{}},
		{"restore FILE", "Restore the database of a site from a backup", restoreLong, &restoreOptions{}},
		{"who ADDRESS[:PORT] [FILE …]", "Find who used an IP address at a given time", whoLong, &whoOptions{}},
		{"guide [TOPIC]", "Read a guide", guideLong, &guideOptions{}},
		{"version", "Print the version", "", &versionOptions{}},
	}
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

// removedCommands says, for each command of an earlier release, what to do instead.
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

func report(err error, c console) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	fmt.Fprintf(c.err, "patchbay: %s\n", display.Printable(err.Error())) // a part of the text may come from an aggregate
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[*site.ConfigError](err); ok {
		return 2
	}
	return 1
}
