package experimenter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client/ownsite"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/provider/supervisor"
)

const demoLong = `Show the whole life of an experiment, in less than a minute. The demo creates a site in
a temporary folder and serves it on a free port of this host. A user reserves three
nodes on a network with a fast and a slow link, one with a server installed, logs in,
queries the server, measures the network, restarts the nodes, renews and deletes them.
Every step shows the command, which you can repeat by hand, and its result.

As root, on a host that passes "patchbay-local doctor", the nodes are containers of this
host. On other hosts the demo says what is missing and simulates the nodes, without
logins and measurements. It needs no network and leaves nothing behind. --keep DIR keeps
the site in DIR, with the request, the manifest and drawings of both.`

// demoTimeout is ample: a demonstration takes less than a minute.
const demoTimeout = 2 * time.Minute

type demoOptions struct{ Keep, Provider string }

func (o *demoOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Provider, "provider", "", "local, for containers of this host, or simulated (default: local if this host can run nodes)")
	fs.StringVar(&o.Keep, "keep", "", "create the site in this folder, new or empty, and keep it")
}

func (o *demoOptions) Validate(args []string) error {
	if o.Provider != "" && o.Provider != create.Local && o.Provider != create.Simulated {
		return fmt.Errorf("--provider %q is neither %s nor %s", o.Provider, create.Local, create.Simulated)
	}
	return command.NoArguments(args)
}

func (o *demoOptions) Run(ctx context.Context, c command.Console) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// Catch SIGPIPE, so that the command cleans up even if no program reads its output.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	d := &demo{ctx: ctx, out: c.Out, start: time.Now(), work: "/"}
	if d.program, err = ownsite.FindProgram("patchbay"); err != nil {
		return err
	}
	if d.local, err = o.chooseLocal(d); err != nil {
		return err
	}
	dir := o.Keep
	if dir == "" {
		temporary, err := os.MkdirTemp("", "patchbay-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = filepath.Join(temporary, "site")
	}
	if d.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := create.RequireEmpty(d.dir); err != nil {
		return err
	}
	failed := d.serve()
	for _, s := range demoSteps {
		if failed == nil && (d.local || !s.local) {
			failed = d.run(s)
		}
	}
	if err := d.close(failed); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\n%d steps in %.0f s. For an experiment of your own: %s\n", d.steps, time.Since(d.start).Seconds(), display.Command("up", "--example"))
	if o.Keep != "" {
		fmt.Fprintf(c.Out, "The site is kept; serve it with:\n  %s\n", display.CommandAt(filepath.Join(d.dir, site.ConfigName), "serve"))
	}
	return nil
}

// chooseLocal returns false and prints the reason if this host cannot run containers. With
// --provider local, it fails instead.
func (o *demoOptions) chooseLocal(d *demo) (bool, error) {
	if o.Provider == create.Simulated {
		return false, nil
	}
	reason := ownsite.HostProblem(d.ctx)
	switch {
	case reason == "":
		return true, nil
	case d.ctx.Err() != nil:
		return false, d.ctx.Err()
	case o.Provider == create.Local:
		return false, fmt.Errorf("nodes cannot be containers of this host: %s", reason)
	}
	d.print("The nodes of this demonstration are simulated; they cannot be containers of this host:\n" + reason)
	return false, nil
}

// demo runs commands until a command fails or prints unexpected output.
type demo struct {
	ctx     context.Context
	out     io.Writer
	start   time.Time
	steps   int
	program string // the path of this program
	dir     string // of the site
	work    string // the working directory of commands: the site's folder, once it exists
	local   bool   // the nodes are containers of this host

	server *supervisor.Process
	log    bytes.Buffer // the server's log; read it only after the server has ended
}

func (d *demo) heading(text string) {
	d.steps++
	fmt.Fprintf(d.out, "\n%2d. %s  [%.1fs]\n", d.steps, text, time.Since(d.start).Seconds())
}

// print breaks long lines between XML elements, shortens lines that are still too long, and
// prints at most 14 lines.
func (d *demo) print(text string) {
	const most, width, cut = 14, 100, 116
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if len(line) > width {
			line = strings.ReplaceAll(line, "><", ">\n      <")
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(d.out, "    … %d more lines\n", len(lines)-most)
			return
		}
		fmt.Fprintf(d.out, "    %s\n", display.Cut(line, cut))
	}
}

// run prints a step's heading, its commands and their output. It fails if a command fails, or if its
// output lacks a wanted text.
func (d *demo) run(s demoStep) error {
	d.heading(s.heading)
	for _, c := range s.commands {
		line := d.command(c.line)
		fmt.Fprintf(d.out, "    $ %s\n", line)
		out, err := d.output(d.ctx, line)
		if err != nil {
			return err
		}
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				return fmt.Errorf("%s: %q is missing in its output: %s", line, text, out)
			}
		}
		switch c.shown {
		case paragraph:
			out, _, _ = strings.Cut(out, "\n\n")
		case firstNode:
			_, out, _ = strings.Cut(out, "<node ")
			out, _, _ = strings.Cut(out, "</node>")
			out = "<node " + out + "</node>"
		case nothing:
			continue
		}
		d.print(out)
	}
	return nil
}

// command replaces the names of this program and of patchbay-local by their paths if patchbay
// is not on the PATH.
func (d *demo) command(line string) string {
	if !strings.ContainsRune(display.Program, filepath.Separator) {
		return line
	}
	for _, name := range []string{"patchbay", "patchbay-local"} {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return display.ShellLine([]string{filepath.Join(filepath.Dir(d.program), name)}) + " " + rest
		}
	}
	return line
}

func (d *demo) output(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = d.work, append(os.Environ(), site.EnvPrefix+"CONFIG=", site.EnvPrefix+"URL=")
	// Ctrl-C must end only this process, which then ends the command. So the command has
	// its own process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, errors.Join(ctx.Err(), err), out)
	}
	return string(out), err
}

// serve creates a site and starts its server. close stops the server.
func (d *demo) serve() error {
	address, err := ownsite.FreeAddress()
	if err != nil {
		return err
	}
	provider := create.Simulated
	if d.local {
		provider = create.Local
	}
	initLine := "patchbay " + display.ShellLine([]string{"init", "--authority", "demo.example.org", "--provider", provider, "--listen", address, d.dir})
	if err := d.run(demoStep{"Make a site", false, []demoCommand{{initLine, paragraph, nil}}}); err != nil {
		return err
	}
	if err := site.ReplaceFile(filepath.Join(d.dir, site.RequestName), []byte(demoRequest), 0o644); err != nil {
		return err
	}
	d.print("$ " + display.ShellLine([]string{"cd", d.dir}))
	d.work = d.dir

	d.heading("Serve it")
	d.print("$ " + d.command("patchbay serve"))
	listening := make(chan string, 1)
	d.server, err = supervisor.Start(supervisor.Command{
		Path: d.program, Args: []string{"patchbay", "serve", "--config", d.dir},
		Env:    append(os.Environ(), site.EnvPrefix+"ADMIN=127.0.0.1:0"), // the default port may be in use
		Attr:   syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
		Stdout: true,
		Log: func(line []byte) {
			if bytes.HasPrefix(line, []byte("listening on ")) {
				listening <- string(line)
			} else if !bytes.Contains(line, []byte(" msg=call ")) {
				d.log.Write(append(line, '\n'))
			}
		},
	})
	if err != nil {
		return err
	}
	select {
	case line := <-listening:
		d.print(line)
	case <-d.server.Exited():
		return fmt.Errorf("the server ended: %w", d.server.Wait())
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	if d.local {
		d.print("As root, serve also starts patchbay-local up, which runs the nodes.")
	}
	return nil
}

// close stops the server. If a step failed, close shows the end of the server's log. It always
// removes everything of the local testbed. The error includes the error of the failed step.
func (d *demo) close(failed error) error {
	if d.server != nil {
		d.server.Stop(time.Minute)
		if failed == nil {
			failed = d.server.Wait()
		} else if !errors.Is(failed, context.Canceled) {
			lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
			d.print("--- the end of the log\n" + strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	}
	if !d.local || d.work != d.dir {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), 30*time.Second)
	defer cancel()
	d.heading("Remove what is left of the testbed")
	clean := d.command("patchbay-local clean providers/local.yaml")
	d.print("$ " + clean)
	if _, err := d.output(ctx, clean); err != nil {
		failed = errors.Join(failed, fmt.Errorf("cannot clean up; try again: %w", err))
	}
	return failed
}
