package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

type options struct {
	cgroup, disk, cache string
	tests, env          list
	cut                 bool
	timeout             time.Duration
}

// parse parses the flags and returns the other arguments.
func (o *options) parse(args []string) ([]string, error) {
	f := flag.NewFlagSet("guest", flag.ContinueOnError)
	f.StringVar(&o.cgroup, "cgroup", "v2", "version of the control groups: v2, v1 or hybrid")
	f.Var(&o.tests, "test", "`folder` of a package whose tests are compiled on the host and run in the guest; may be repeated. FOLDER=REGEXP runs only the tests that match")
	f.Var(&o.env, "env", "`NAME=VALUE` is set in the environment of the commands; may be repeated")
	f.StringVar(&o.disk, "disk", "", "`file` of a disk that later boots use again; it is created if it does not exist")
	f.BoolVar(&o.cut, "cut", false, "cut the power after the last command, so that changes that were not synced are lost")
	f.DurationVar(&o.timeout, "timeout", 30*time.Minute, "end the guest after this `time`")
	f.StringVar(&o.cache, "cache", filepath.Join(".cache", "guest"), "`folder` for packages and the root file system")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"v1", "v2", "hybrid"}, o.cgroup) {
		return nil, fmt.Errorf("--cgroup must be v1, v2 or hybrid, not %q", o.cgroup)
	}
	if len(o.tests) == 0 && f.NArg() == 0 {
		return nil, errors.New("no command is given: write one, or name a package with --test")
	}
	var err error
	if o.cache, err = filepath.Abs(o.cache); err == nil && o.disk != "" {
		o.disk, err = filepath.Abs(o.disk)
	}
	return f.Args(), err
}

func main() {
	switch {
	case os.Getpid() == 1:
		bootInside()
	case os.Args[0] == runner:
		os.Exit(runInside())
	case filepath.Base(os.Args[0]) == compiler:
		os.Exit(goInside(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// run runs on the host. It returns the exit status of the guest's commands.
func run(ctx context.Context, args []string) (status int, err error) {
	var o options
	commands, err := o.parse(args)
	if err != nil {
		return 0, err
	}
	if os.Geteuid() != 0 {
		return 0, errors.New("only root can create the guest's disks: run this command as root")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest took more than %v: raise --timeout", o.timeout))
	defer cancel()
	c, err := openCache(ctx, o.cache) // QEMU, the kernel and the root file system
	if err != nil {
		return 0, err
	}
	defer c.Close()
	dir, err := os.MkdirTemp("", "patchbay-guest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	tests, err := prepareDisk(ctx, &o, dir)
	if err != nil {
		return 0, err
	}
	initrd := filepath.Join(dir, "initrd")
	orders := orders{CGroup: o.cgroup, Commands: append(tests, commands...), Env: o.env, Cut: o.cut}
	if err := writeInitrd(initrd, c.modules, orders); err != nil {
		return 0, err
	}
	m := machine{cache: c, options: o, initrd: initrd, status: filepath.Join(dir, "status")}
	return m.boot(ctx, os.Stdout)
}

// prepareDisk makes the disk if it does not exist, and then returns the commands that run the
// tests in the guest.
func prepareDisk(ctx context.Context, o *options, dir string) ([]string, error) {
	if o.disk == "" {
		o.disk = filepath.Join(dir, "disk.img")
	}
	if _, err := os.Stat(o.disk); err != nil {
		return makeDisk(ctx, filepath.Join(dir, "disk"), o.disk, *o)
	}
	if len(o.tests) > 0 {
		return nil, fmt.Errorf("%s was created for an earlier boot and contains the programs of that time: remove the file, or run without --test", o.disk)
	}
	return nil, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		text := complaints.String()
		return "", fmt.Errorf("%s: %w: %s", c.String(), err, strings.TrimSpace(text[max(0, len(text)-2000):]))
	}
	return string(out), nil
}
