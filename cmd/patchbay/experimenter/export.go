package experimenter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/client/experiment"
	"patchbay/cmd/patchbay/command"
)

const exportLong = `Describe the nodes of a slice for other programs. If you have one experiment, SLICE may be
omitted. The formats are:

  json        the slice, its nodes, their addresses and logins
  ansible     an inventory in YAML: the groups are the node names without -NUMBER, and the
              variable addresses has a node's address on each link
  ssh-config  a configuration for ssh -F, with the hosts NODE.SLICE.patchbay
  radl        a RADL document of the nodes and networks, without recipes: one system for each
              node, with the URN of its sliver as instance_id

The inventory refers to your user's folder for ssh_config, and ssh-config for keys and host
keys. So use them on this host.`

// exportFormats are the values of --format.
var exportFormats = []string{"ansible", "json", "radl", "ssh-config"}

type exportOptions struct {
	experimenterFlags
	Format, Output string

	slice string
}

func (o *exportOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.StringVar(&o.Format, "format", "json", "one of "+strings.Join(exportFormats, ", "))
	fs.StringVarP(&o.Output, "output", "o", "", "write to this file, instead of printing")
}

func (o *exportOptions) FlagWords() map[string]command.Completer {
	return map[string]command.Completer{"format": command.SomeOf(exportFormats...)}
}

func (o *exportOptions) Validate(args []string) error {
	switch {
	case !slices.Contains(exportFormats, o.Format):
		return fmt.Errorf("--format has no %.40q; use one of %s", o.Format, strings.Join(exportFormats, ", "))
	case len(args) > 1:
		return errors.New("takes at most one SLICE")
	case len(args) == 1:
		o.slice = args[0]
	}
	return nil
}

func (o *exportOptions) Run(ctx context.Context, c command.Console) error {
	s, err := o.openLocked(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.slice, err = s.SliceOr(ctx, o.slice); err != nil {
		return err
	}
	text, err := o.export(ctx, s)
	if err != nil {
		return s.Explain(fmt.Errorf("slice %s: %w", o.slice, err))
	}
	if o.Output != "" {
		return command.WriteDocument(o.Output, string(text))
	}
	_, err = io.WriteString(c.Out, command.ShownOn(c.Out, string(text)))
	return err
}

// export returns the description of the slice's present manifest.
func (o *exportOptions) export(ctx context.Context, s *opened) ([]byte, error) {
	x, err := s.OpenSlice(ctx, o.slice, 0, false)
	if err != nil {
		return nil, err
	}
	a, err := x.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	if len(a.Slivers) == 0 {
		return nil, errors.New("it has no nodes")
	}
	hosts, expires, err := s.Hosts(o.slice)
	if err != nil {
		return nil, err
	}
	hosts = slices.DeleteFunc(hosts, func(h experiment.Host) bool { return h.Sliver == "" }) // of other aggregates
	switch o.Format {
	case "ansible":
		return experiment.AnsibleInventory(hosts, []byte(a.RSpec), s.File("ssh_config"))
	case "radl":
		return experiment.RADL([]byte(a.RSpec))
	case "ssh-config":
		return experiment.SSHConfig(hosts, s.SSHFiles()), nil
	}
	return experiment.JSON(x.Slice, expires, hosts)
}
