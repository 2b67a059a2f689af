package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"patchbay/am/file"
	"patchbay/inventory/provider/lxd"
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use:               "patchbay-lxd",
		Short:             "Run Patchbay nodes as containers of an LXD or Incus cluster",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(setupCommand(), inventoryCommand(), doctorCommand(), metricsCommand(), runCommand(), workCommand(), versionCommand())
	return root
}

// place is where a provider has its files.
type place struct {
	name, socket string
}

// add adds the flag with the name to a command.
func (p *place) add(c *cobra.Command) {
	c.Flags().StringVar(&p.name, "name", "lxd", "name of this provider: the name of its file without .prov")
}

// dir returns the folder of providers of a site.
func (p *place) dir(site string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(site, "providers"))
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s has no folder providers; give the folder of a site, such as patchbay init makes", site)
	}
	return dir, nil
}

// dirAsOwner returns the folder of providers of a site. If root calls it, the process becomes one of the folder's owner,
// who is the user that the server runs as. So the server can change the files that this process makes.
func (p *place) dirAsOwner(site string) (string, error) {
	dir, err := p.dir(site)
	if err != nil {
		return "", err
	}
	uid, gid, ok, err := file.OtherOwner(dir)
	if err != nil || !ok {
		return dir, err
	}
	return dir, errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid))
}

// progress returns a function that prints each line that it is called with.
func progress(c *cobra.Command) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(c.OutOrStdout(), format+"\n", args...) }
}

func setupCommand() *cobra.Command {
	var p place
	var links int
	c := &cobra.Command{
		Use:   "setup SITE",
		Short: "Prepare the cluster for a site, as root on one of its members",
		Long: `Prepare the cluster, as root on a member, while all members are up. It makes the project, the
bridges for links, a certificate that is restricted to the project, and in the site's folder
of providers NAME.yaml and NAME.prov. In a cluster, it adds the network ACL patchbay-links to the
nodes' network. All else that is there already stays as it is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			dir, err := p.dir(args[0])
			if err != nil {
				return err
			}
			return lxd.Setup(c.Context(), lxd.SetupOptions{Dir: dir, Name: p.name, Socket: p.socket, Links: links, Program: program, Progress: progress(c)})
		},
	}
	p.add(c)
	c.Flags().IntVar(&links, "links", 200, "number of bridges for links; each link of all slices together takes one")
	c.Flags().StringVar(&p.socket, "socket", "", "the server's Unix socket (default: the usual one)")
	return c
}

func inventoryCommand() *cobra.Command {
	var p place
	var replace bool
	c := &cobra.Command{
		Use:   "inventory SITE",
		Short: "Add the members of the cluster to the site's inventory",
		Long: `Add a component to inventory.yaml for each member of the cluster that has none. Its capacity
follows from the member's memory and the size of the storage pool. Existing components stay as they
are. Then run patchbay reload. With --replace, write a new inventory with the images and sliver types
of NAME.yaml, and keep the former one as inventory.yaml.old.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.dirAsOwner(args[0])
			if err != nil {
				return err
			}
			return lxd.UpdateInventory(c.Context(), lxd.InventoryOptions{Site: filepath.Dir(dir), Name: p.name, Replace: replace, Progress: progress(c)})
		},
	}
	p.add(c)
	c.Flags().BoolVar(&replace, "replace", false, "write a new inventory with this provider only")
	return c
}

func doctorCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:   "doctor SITE",
		Short: "Test whether the cluster can run nodes, with remedies",
		Long: `Check the settings, the cluster's health and what the settings name. Then make a node on each
member with a link between them all, check it, and remove the nodes again. The exit status is 0 if
nodes can run there.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.dirAsOwner(args[0])
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			err = lxd.Doctor(c.Context(), dir, p.name, func(f lxd.Finding) {
				mark := "ok     "
				if f.Bad {
					mark = "MISSING"
				} else if f.Remedy != "" {
					mark = "note   "
				}
				fmt.Fprintf(out, "%s  %s: %s\n", mark, f.Name, f.Message)
				if f.Remedy != "" {
					fmt.Fprintf(out, "         %s\n", f.Remedy)
				}
			})
			if err == nil {
				fmt.Fprintln(out, "Nodes can run in this cluster.")
			}
			return err
		},
	}
	p.add(c)
	return c
}

func metricsCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:   "metrics SITE",
		Short: "Print the state of the cluster for Prometheus",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.dirAsOwner(args[0])
			if err != nil {
				return err
			}
			return lxd.WriteMetrics(c.Context(), dir, p.name, c.OutOrStdout())
		},
	}
	p.add(c)
	return c
}

func runCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:    "run --name NAME ral_action=ACTION",
		Short:  "Act as the provider: one call, JSON in and out",
		Hidden: true, // only files NAME.prov call it
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return lxd.Run(".", p.name, args[0], os.Stdin, os.Stdout)
		},
	}
	p.add(c)
	return c
}

func workCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:    "work --name NAME",
		Short:  "Carry out what the server has requested, until nothing is left",
		Hidden: true, // only the provider starts it
		Args:   cobra.NoArgs,
		RunE:   func(c *cobra.Command, _ []string) error { return lxd.Work(c.Context(), ".", p.name) },
	}
	p.add(c)
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(c *cobra.Command, args []string) { fmt.Fprintln(c.OutOrStdout(), "patchbay-lxd", buildVersion()) },
	}
}

// version is set by the linker (-X main.version=…) in a release.
var version string

func buildVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}
