package experimenter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const sshLong = `Log in to a node of your experiments, or run a command there. It runs OpenSSH with the
same standard streams and exit status.

NODE is the name in the request, or NODE.SLICE if several slices have a node of that name.
Flags such as --user come before NODE; what follows NODE is the command.

Other programs can use the file ssh_config in your user's folder, where each node is the
host NODE.SLICE.patchbay: with ssh -F, scp -F, sftp -F, or a line "Include FILE" at the
top of ~/.ssh/config.`

type sshOptions struct {
	experimenterFlags
	PrintConfig bool

	node    string
	command []string
	isFlag  func(arg string) bool
}

func (o *sshOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.BoolVar(&o.PrintConfig, "print-config", false, "print the path of ssh_config instead of logging in")
	fs.SetInterspersed(false) // Flags after NODE belong to the command
	o.isFlag = func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		return strings.HasPrefix(arg, "--") && fs.Lookup(name) != nil
	}
}

func (o *sshOptions) Validate(args []string) error {
	if o.PrintConfig {
		return command.NoArguments(args)
	}
	if len(args) == 0 {
		return fmt.Errorf("the node is missing; see: %s", o.site.Hint("status"))
	}
	o.node, o.command = args[0], args[1:]
	if len(o.command) > 0 && o.isFlag(o.command[0]) {
		flag, _, _ := strings.Cut(o.command[0], "=")
		return fmt.Errorf("put %s before %s; what follows the node is the command", flag, o.node)
	}
	return nil
}

func (o *sshOptions) Run(ctx context.Context, c command.Console) error {
	s, err := o.open(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.PrintConfig {
		return s.printConfig(ctx)
	}
	h, err := s.findNode(ctx, o.node)
	if err != nil {
		return err
	}
	if s.IsSimulated(h) {
		return fmt.Errorf("the node %s is simulated, so there is nothing to log in to; for real nodes see: %s", display.Line(h.Name), display.Command("up", "--help"))
	}
	return runSSH(c, s.File("ssh_config"), append([]string{h.Alias}, o.command...)...)
}

func (s *opened) printConfig(ctx context.Context) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if len(s.Usable()) == 0 {
		return fmt.Errorf("there is no experiment yet; begin with: %s", s.Hint("up", "--example"))
	}
	if err := s.WriteSSH(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, s.File("ssh_config"))
	return err
}

// findNode returns the node of that name, if this user can log in to it. Before, it updates the stored
// manifests, if the aggregate answers, and writes the files for OpenSSH. Without an answer, it uses the
// stored login and prints the error.
func (s *opened) findNode(ctx context.Context, name string) (h experiment.Host, err error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return h, err
	}
	defer unlock()
	empty, wait, refreshErr := s.refreshAll(ctx)
	// Write ssh_config even without new manifests: a file that another person wrote could
	// make ssh run any command.
	if err := s.WriteSSH(); err != nil {
		return h, err
	}
	all, noAccount, err := s.hostsExcept(empty)
	if err != nil {
		return h, err
	}
	found := experiment.Named(all, name)
	switch {
	case len(found) == 1 && noAccount[found[0].Alias] != "":
		return h, fmt.Errorf("there is no account of %s on the node %s; its owner creates one with: %s", session.AccountOf(s.UserName()), name, display.Command("share", noAccount[found[0].Alias], s.UserName()))
	case len(found) == 1 && found[0].Login.Exists():
		if refreshErr != nil {
			fmt.Fprintf(s.Err, "%v\nThe login is from the stored manifest.\n", refreshErr)
		}
		return found[0], nil
	case len(found) == 1 && found[0].Unsafe != "":
		return h, fmt.Errorf("the manifest has an unsafe login for %s, %q; it is not used", name, found[0].Unsafe)
	case len(found) == 1 && wait[found[0].Sliver] != "":
		return h, fmt.Errorf("%s %s; before, there is nothing to log in to", name, wait[found[0].Sliver])
	case len(found) == 1:
		return h, errors.Join(fmt.Errorf("%s has no login yet; see: %s", name, s.Hint("status")), refreshErr)
	case len(found) > 1:
		return h, fmt.Errorf("several nodes have the name %s: %s", name, strings.Join(shortNames(found), ", "))
	case len(all) == 0:
		return h, errors.Join(fmt.Errorf("there are no nodes; begin with: %s", s.Hint("up", "--example")), refreshErr)
	}
	return h, errors.Join(unknownNode(name, all), refreshErr)
}

// refreshAll updates the stored manifests of all slices. It returns the slices without nodes, whose
// stored manifests do not change and so are outdated, and for the URNs of slivers that begin later when they begin.
func (s *opened) refreshAll(ctx context.Context) (empty []string, begins map[string]string, failed error) {
	begins = map[string]string{}
	for _, name := range s.Usable() {
		x, err := s.OpenSlice(ctx, name, 0, false)
		if err == nil {
			var a client.Answer
			if a, err = x.Refresh(ctx); err == nil && len(a.Slivers) == 0 {
				empty = append(empty, name)
			}
			for _, v := range waiting(a.Slivers) {
				begins[v.URN] = beginsText(&v, time.Now())
			}
		}
		if session.IsUnreachable(err) { // no other slice can be reached either
			return empty, begins, s.Explain(err)
		}
		failed = errors.Join(failed, err)
	}
	return empty, begins, failed
}

// hostsExcept returns the nodes of all slices but those in without. noAccount has the slice of each node
// that another user has shared and that has no account of this user yet, by alias.
func (s *opened) hostsExcept(without []string) (all []experiment.Host, noAccount map[string]string, err error) {
	noAccount = map[string]string{}
	for _, x := range s.Usable() {
		if slices.Contains(without, x) {
			continue
		}
		hosts, _, err := s.Hosts(x)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, hosts...)
		for _, h := range hosts {
			if s.lacksAccount(h) && s.SharedWithUser(x) && !s.IsSimulated(h) {
				noAccount[h.Alias] = x
			}
		}
	}
	return all, noAccount, nil
}

func unknownNode(name string, all []experiment.Host) error {
	nodes := make([]string, len(all))
	for i, h := range all {
		nodes[i] = h.Name
	}
	remedy := "there are "
	if near := display.Suggest(name, append(nodes, shortNames(all)...)); near != "" {
		remedy = fmt.Sprintf("did you mean %s? There are ", near)
	}
	return fmt.Errorf("there is no node %s; %s%s", name, remedy, userfolder.JoinSome(shortNames(all)))
}

// shortNames returns NODE.SLICE for each host.
func shortNames(hosts []experiment.Host) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = strings.TrimSuffix(h.Alias, "."+experiment.Domain)
	}
	return names
}

// runSSH runs OpenSSH, and returns its exit status as an ExitError, 255 if it was killed. Root runs
// OpenSSH with the rights of the owner of the configuration's folder, since the
// configuration can name programs to run.
func runSSH(c command.Console, config string, args ...string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return errors.New("there is no ssh on the PATH; install openssh-client")
	}
	cmd := exec.Command(program, append([]string{"-F", config}, args...)...)
	if uid, gid, ok, err := file.OtherOwner(filepath.Dir(config)); err != nil {
		return err
	} else if ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, plainWriter(c.Out), plainWriter(c.Err)
	// Do not end ssh with a context: Ctrl-C is for ssh and the command in the node.
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if e.ExitCode() < 0 {
			return command.ExitError(255)
		}
		return command.ExitError(e.ExitCode())
	}
	return err
}

// plainWriter returns the file behind a writer, if there is one. A child process can
// recognize only a file as a terminal.
func plainWriter(w io.Writer) io.Writer {
	if f, ok := site.FileOf(w); ok {
		return f
	}
	return w
}
