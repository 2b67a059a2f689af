package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/inventory/local/supervisor"
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
	return noArguments(args)
}

func (o *demoOptions) Run(ctx context.Context, c console) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// Catch SIGPIPE, so that the command cleans up even if no program reads its output.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	d := &demo{ctx: ctx, out: c.out, start: time.Now(), work: "/"}
	if d.program, err = findProgram("patchbay"); err != nil {
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
		dir, d.until = filepath.Join(temporary, "site"), " (until this ends; --keep DIR keeps it)"
	}
	if d.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := create.RequireEmpty(d.dir); err != nil {
		return err
	}
	d.serve()
	d.runSteps()
	if err := d.close(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\n%d steps in %.0f s. For an experiment of your own: %s\n", d.steps, time.Since(d.start).Seconds(), display.Command("up", "--example"))
	if o.Keep != "" {
		fmt.Fprintf(c.out, "The site is kept; serve it with:\n  %s\n", display.CommandAt(filepath.Join(d.dir, site.ConfigName), "serve"))
	}
	return nil
}

// chooseLocal returns false and prints the reason if this host cannot run containers. With
// --provider local, it fails instead.
func (o *demoOptions) chooseLocal(d *demo) (bool, error) {
	if o.Provider == create.Simulated {
		return false, nil
	}
	reason := hostProblem(d.ctx)
	switch {
	case reason == "":
		return true, nil
	case d.ctx.Err() != nil:
		return false, d.ctx.Err()
	case o.Provider == create.Local:
		return false, fmt.Errorf("nodes cannot be containers of this host: %s", reason)
	}
	d.print("The nodes of this demonstration are simulated; they cannot be containers of this host:\n%s", reason)
	return false, nil
}

// hostProblem returns why the local testbed cannot run on this host, or "".
func hostProblem(ctx context.Context) string {
	if os.Geteuid() != 0 {
		return "that needs root; run it as root, or with sudo"
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return "there is no ssh on the PATH to log in with; install openssh-client"
	}
	helper, err := findProgram("patchbay-local")
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, helper, "doctor", "--quiet").Output()
	if err == nil {
		return ""
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return text
	}
	return fmt.Sprintf("%s failed: %v", display.ShellLine([]string{helper, "doctor", "--quiet"}), err)
}

// demo runs commands until a command fails or prints unexpected output.
type demo struct {
	ctx     context.Context
	out     io.Writer
	start   time.Time
	steps   int
	err     error  // of the first failed command; no further command runs
	program string // the path of this program
	dir     string // of the site
	work    string // the working directory of commands: the site's folder, once it exists
	until   string // a note that the site's files are temporary, or ""

	server *supervisor.Process
	log    bytes.Buffer // the server's log; read it only after the server has ended

	local    bool // the nodes are containers of this host
	testbed  *site.Testbed
	settings []byte    // of the testbed, as written by init
	whileUp  leftovers // counts while the nodes were up
}

func (d *demo) step(heading string) {
	if d.err == nil {
		d.steps++
		fmt.Fprintf(d.out, "\n%2d. %s  [%.1fs]\n", d.steps, heading, time.Since(d.start).Seconds())
	}
}

// print breaks long lines between XML elements, shortens lines that are still too long, and
// prints at most 14 lines.
func (d *demo) print(format string, args ...any) {
	const most, width, cut = 14, 100, 116
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
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
		if len(line) > cut {
			line = strings.ToValidUTF8(line[:cut-3], "") + "…"
		}
		fmt.Fprintf(d.out, "    %s\n", line)
	}
}

func (d *demo) run(ctx context.Context, line string) (string, error) {
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

// command replaces the word patchbay by this program's path if patchbay is not on the PATH.
func (d *demo) command(line string) string {
	if rest, ok := strings.CutPrefix(line, "patchbay "); ok && strings.ContainsRune(display.Program, filepath.Separator) {
		return display.ShellLine([]string{d.program}) + " " + rest
	}
	return line
}

func (d *demo) runShown(line string) (out string) {
	if d.err == nil {
		line = d.command(line)
		fmt.Fprintf(d.out, "    $ %s\n", line)
		out, d.err = d.run(d.ctx, line)
	}
	return out
}

// expect fails the demonstration if the output lacks one of the texts.
func (d *demo) expect(line string, texts ...string) string {
	out := d.runShown(line)
	if d.err == nil {
		d.print("%s", out)
	}
	for _, w := range texts {
		if d.err == nil && !strings.Contains(out, w) {
			d.err = fmt.Errorf("%s: %q is missing in its output: %s", line, w, out)
		}
	}
	return out
}

// showFirstLines shows only the first paragraph. Later paragraphs are advice.
func (d *demo) showFirstLines(line string) {
	if made, _, _ := strings.Cut(d.runShown(line), "\n\n"); d.err == nil {
		d.print("%s", made)
	}
}

// showNode shows only the first node of the printed document.
func (d *demo) showNode(what, line string) string {
	out := d.runShown(line)
	_, node, _ := strings.Cut(out, "<node ")
	if node, _, ok := strings.Cut(node, "</node>"); ok {
		d.print("--- the first node of the %s\n<node %s</node>", what, node)
	}
	return out
}

// offered returns the numbers of all nodes and of free nodes.
func offered(ad string) (all, free int) {
	return strings.Count(ad, "<node "), strings.Count(ad, `<available now="true"/>`)
}

// serve creates a site and starts its server. close stops the server.
func (d *demo) serve() {
	address, err := freeAddress()
	if err != nil {
		d.err = err
		return
	}
	provider := create.Simulated
	if d.local {
		provider = create.Local
	}
	d.step("Make a site")
	d.showFirstLines("patchbay " + display.ShellLine([]string{"init", "--authority", "demo.example.org", "--provider", provider, "--listen", address, d.dir}))
	if d.err != nil {
		return
	}
	d.print("$ %s", display.ShellLine([]string{"cd", d.dir}))
	d.work = d.dir
	if d.local && d.err == nil {
		d.err = d.openTestbed()
	}
	if d.err == nil {
		d.err = site.ReplaceFile(filepath.Join(d.dir, site.RequestName), []byte(demoRequest), 0o644)
	}
	d.runShown("sed -i 's/invite: no/invite: yes/' " + site.ConfigName)

	d.step("Serve it")
	listening := make(chan string, 1)
	if d.err != nil {
		return
	}
	d.print("$ %s", d.command("patchbay "+display.ShellLine([]string{"serve", "--config", d.dir})))
	d.server, d.err = supervisor.Start(supervisor.Command{
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
	if d.err != nil {
		return
	}
	select {
	case line := <-listening:
		d.print("%s", line)
		if d.local {
			d.print("As root, serve also starts patchbay-local up, which runs the nodes.")
		}
	case <-d.server.Exited():
		d.err = fmt.Errorf("the server ended: %w", d.server.Wait())
	case <-d.ctx.Done():
		d.err = d.ctx.Err()
	}
}

// openTestbed sets port_rest to 0, so that the ports of deleted nodes are released at once.
func (d *demo) openTestbed() (err error) {
	if d.testbed, err = site.OpenTestbed(filepath.Join(d.dir, site.ProvidersDir), create.Local); err != nil {
		return err
	}
	if d.settings, err = os.ReadFile(d.testbed.Settings); err != nil {
		return err
	}
	return site.ReplaceFile(d.testbed.Settings, portRest.ReplaceAll(d.settings, []byte("port_rest: 0s")), 0o644)
}

var portRest = regexp.MustCompile(`(?m)^port_rest: .*$`)

// close stops the server. If a step failed, close shows the end of the server's log. It
// always removes everything of the local testbed. The error includes the error of the
// failed step.
func (d *demo) close() error {
	failed := d.err
	if d.server != nil {
		d.server.Stop(time.Minute)
		if failed == nil {
			failed = d.server.Wait()
		} else if !errors.Is(failed, context.Canceled) {
			lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
			d.print("--- the end of the log\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	}
	if d.testbed == nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), 30*time.Second)
	defer cancel()
	d.step("Check that the host is as before")
	clean := display.ShellLine([]string{d.testbed.Program, "clean", d.testbed.Settings})
	d.print("$ %s", clean)
	_, err := d.run(ctx, clean)
	if err != nil {
		err = fmt.Errorf("cannot clean up; try again: %w", err)
	}
	failed = errors.Join(failed, err, site.ReplaceFile(d.testbed.Settings, d.settings, 0o644))
	left := countLeftovers(d.testbed.Instance)
	for end := time.Now().Add(3 * time.Second); left != (leftovers{}) && time.Now().Before(end); left = countLeftovers(d.testbed.Instance) {
		time.Sleep(20 * time.Millisecond) // the kernel removes some things later
	}
	d.print("What remains of the testbed: %s.", left.comparedTo(d.whileUp))
	if left != (leftovers{}) {
		failed = errors.Join(failed, fmt.Errorf("something of the testbed %s is left on this host: %s", d.testbed.Instance, left.comparedTo(d.whileUp)))
	}
	return failed
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
