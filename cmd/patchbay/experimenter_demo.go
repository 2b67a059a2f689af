package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/inventory/local"
	"patchbay/inventory/local/supervisor"
)

const demoLong = `See the whole life of an experiment, in less than a minute: a site is made in a
temporary folder and served on a free port of this host, a user reserves three
nodes on a network with a fast and a slow way, gets them with a server installed
on one, logs in, asks the server, measures the network, restarts, renews and
gives back. Every step shows what was asked, what came of it, and the command to
do the same by hand.

Where it may, that is as root on a host that "patchbay-local doctor" finds fit, the
nodes are containers of this host; elsewhere it says why not, and they are
simulated: nobody logs in, and nothing is measured. It needs no network and
leaves nothing behind; --keep DIR keeps the site in DIR, with the request, the
manifest and drawings of both.`

// demoTimeout is when something is wrong with a demonstration.
const demoTimeout = 2 * time.Minute

type demoOptions struct{ Keep, Provider string }

func (o *demoOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Provider, "provider", "", "local, for containers of this host, or simulated (default: local where it may)")
	fs.StringVar(&o.Keep, "keep", "", "make the site in this folder, new or empty, and keep it")
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
	// Nobody may be reading any more, and yet it must clean up.
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
	d.play()
	if err := d.close(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\n%d steps in %.0f s. For an experiment of your own: %s\n", d.steps, time.Since(d.start).Seconds(), display.Command("up", "--example"))
	if o.Keep != "" {
		fmt.Fprintf(c.out, "The site is kept; serve it with:\n  %s\n", display.CommandAt(filepath.Join(d.dir, site.ConfigName), "serve"))
	}
	return nil
}

// chooseLocal tells whether the nodes will be containers of this host. Where
// they cannot be, it says why; that is an error if they were asked for.
func (o *demoOptions) chooseLocal(d *demo) (bool, error) {
	if o.Provider == create.Simulated {
		return false, nil
	}
	reason := unfit(d.ctx)
	switch {
	case reason == "":
		return true, nil
	case d.ctx.Err() != nil:
		return false, d.ctx.Err()
	case o.Provider == create.Local:
		return false, fmt.Errorf("nodes cannot be containers of this host: %s", reason)
	}
	d.say("The nodes of this demonstration are simulated; they cannot be containers of this host:\n%s", reason)
	return false, nil
}

// unfit is why the local testbed cannot run here, nothing if it can.
func unfit(ctx context.Context) string {
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
	return fmt.Sprintf("%s says nothing but: %v", display.ShellLine([]string{helper, "doctor", "--quiet"}), err)
}

// demo is a demonstration. It runs the commands that it shows, until one of them
// does not do as expected.
type demo struct {
	ctx     context.Context
	out     io.Writer
	start   time.Time
	steps   int
	err     error  // of the first command that failed; no other is run after it
	program string // the path of this program
	dir     string // of the site
	work    string // the folder of commands: that of the site, once it is made
	until   string // how long files in it last, if not for good

	server *supervisor.Process
	log    bytes.Buffer // what it says; whoever reads waits until it has ended

	local    bool // the nodes are containers of this host
	testbed  *site.Testbed
	settings []byte // of the testbed, as init wrote them
	had      stock  // what of it was on the host when they were up
}

// step begins a step: it has a number, and the time when it begins.
func (d *demo) step(what string) {
	if d.err == nil {
		d.steps++
		fmt.Fprintf(d.out, "\n%2d. %s  [%.1fs]\n", d.steps, what, time.Since(d.start).Seconds())
	}
}

// say writes lines under the step. Lines that are too long to read are broken between
// elements, what is still too long is cut, and so are too many lines.
func (d *demo) say(format string, args ...any) {
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

// run runs a command line, and gives what it writes.
func (d *demo) run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = d.work, append(os.Environ(), site.EnvPrefix+"CONFIG=", site.EnvPrefix+"URL=")
	// Its own group: a Ctrl-C is ours, which ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, errors.Join(ctx.Err(), err), out)
	}
	return string(out), err
}

// command is a command line with this program called so that it is found from
// everywhere, if it begins with patchbay.
func (d *demo) command(line string) string {
	if rest, ok := strings.CutPrefix(line, "patchbay "); ok && strings.ContainsRune(display.Program, filepath.Separator) {
		return display.ShellLine([]string{d.program}) + " " + rest
	}
	return line
}

// output shows a command line, runs it, and gives what it writes.
func (d *demo) output(line string) (out string) {
	if d.err == nil {
		line = d.command(line)
		fmt.Fprintf(d.out, "    $ %s\n", line)
		out, d.err = d.run(d.ctx, line)
	}
	return out
}

// do is output that is shown, and must have all of want in it.
func (d *demo) do(line string, want ...string) string {
	out := d.output(line)
	if d.err == nil {
		d.say("%s", out)
	}
	for _, w := range want {
		if d.err == nil && !strings.Contains(out, w) {
			d.err = fmt.Errorf("%s: %q is not in what it says: %s", line, w, out)
		}
	}
	return out
}

// create is output of which the first paragraph is shown, without advice.
func (d *demo) create(line string) {
	if made, _, _ := strings.Cut(d.output(line), "\n\n"); d.err == nil {
		d.say("%s", made)
	}
}

// document is output of which the first node is shown.
func (d *demo) document(what, line string) string {
	out := d.output(line)
	_, node, _ := strings.Cut(out, "<node ")
	if node, _, ok := strings.Cut(node, "</node>"); ok {
		d.say("--- the first node of the %s\n<node %s</node>", what, node)
	}
	return out
}

// offered gives how many nodes an advertisement has, and how many of them are free.
func offered(ad string) (all, free int) {
	return strings.Count(ad, "<node "), strings.Count(ad, `<available now="true"/>`)
}

// serve makes a site, and serves it until close.
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
	d.create("patchbay " + display.ShellLine([]string{"init", "--authority", "demo.example.org", "--provider", provider, "--listen", address, d.dir}))
	if d.err != nil {
		return
	}
	d.say("$ %s", display.ShellLine([]string{"cd", d.dir}))
	d.work = d.dir
	if d.local && d.err == nil {
		d.err = d.openTestbed()
	}
	if d.err == nil {
		d.err = site.ReplaceFile(filepath.Join(d.dir, site.RequestName), []byte(demoRequest), 0o644)
	}

	d.step("Serve it")
	listening := make(chan string, 1)
	if d.err != nil {
		return
	}
	d.say("$ %s", d.command("patchbay "+display.ShellLine([]string{"serve", "--config", d.dir})))
	d.server, d.err = supervisor.Start(supervisor.Command{
		Path: d.program, Args: []string{"patchbay", "serve", "--config", d.dir},
		Env:    append(os.Environ(), site.EnvPrefix+"ADMIN=127.0.0.1:0"), // the next port may be somebody's
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
		d.say("%s", line)
		if d.local {
			d.say("As root, that starts what makes the nodes, too: patchbay-local up")
		}
	case <-d.server.Exited():
		d.err = fmt.Errorf("the site is not served: %w", d.server.Wait())
	case <-d.ctx.Done():
		d.err = d.ctx.Err()
	}
}

// openTestbed lets no port rest for longer than the demonstration lasts.
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

// close stops serving, and tells what went wrong. Of a local testbed it removes what
// is left, whatever happened before.
func (d *demo) close() error {
	failed := d.err
	if d.server != nil {
		d.server.Stop(time.Minute)
		if failed == nil {
			failed = d.server.Wait()
		} else if !errors.Is(failed, context.Canceled) {
			lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
			d.say("--- the end of the log\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	}
	if d.testbed == nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), 30*time.Second)
	defer cancel()
	d.step("See that the host is as before")
	clean := display.ShellLine([]string{d.testbed.Program, "clean", d.testbed.Settings})
	d.say("$ %s", clean)
	_, err := d.run(ctx, clean)
	if err != nil {
		err = fmt.Errorf("cannot clean up; try again: %w", err)
	}
	failed = errors.Join(failed, err, site.ReplaceFile(d.testbed.Settings, d.settings, 0o644))
	left := takeStock(d.testbed.Instance)
	for end := time.Now().Add(3 * time.Second); left != (stock{}) && time.Now().Before(end); left = takeStock(d.testbed.Instance) {
		time.Sleep(20 * time.Millisecond) // the kernel frees some things a little later
	}
	d.say("Of the testbed are left: %s.", left.beside(d.had))
	if left != (stock{}) {
		failed = errors.Join(failed, fmt.Errorf("something of the testbed %s is left on this host: %s", d.testbed.Instance, left.beside(d.had)))
	}
	return failed
}

// demoRequest asks for a server with two clients, one of them behind a slow way.
// The archive in its URL holds testdata/greet.pl.
//
//go:embed testdata/demo.xml
var demoRequest string

// demoNodes is how many nodes it asks for.
const demoNodes = 3

// Calls of the user, and about the slice.
const (
	asAlice = "patchbay call --user alice "
	onDemo  = asAlice + "--slice demo "
)

// play is the life of an experiment, from the first question to the end.
func (d *demo) play() {
	d.step("Make a user and a slice")
	d.create("patchbay user alice")
	d.create("patchbay slice demo --owner alice")

	d.step("Ask what is there")
	d.do(asAlice+"GetVersion", "urn:publicid:IDN+demo.example.org+authority+cm")
	all, before := offered(d.document("advertisement", asAlice+"-o - ListResources"))
	if d.err == nil {
		d.say("It offers %s, %d of them free.", display.Count(all, "node"), before)
	}

	d.step("Write down what the experiment needs, and look at it")
	d.document("request", "cat request.xml")
	d.draw("request")

	d.step("Reserve it")
	d.do(onDemo+"-o manifest.xml Allocate request.xml", "allocated")

	d.step("Make it real, with an account for the user")
	d.do(onDemo+"Provision --wait", "3 notready")

	d.step("Switch the nodes on")
	d.do(onDemo+"start --wait", "3 ready")

	d.step("See what was installed, and how the link is made")
	if out := d.do(onDemo + "Status"); d.local && strings.Contains(out, "ERROR") {
		d.err = fmt.Errorf("the nodes are ready, but: %s", out)
	}

	d.step("See how to log in")
	d.output(onDemo + "-o manifest.xml Describe")
	manifest := d.document("manifest", "cat manifest.xml")
	d.draw("manifest")
	d.findLogins(manifest)
	if d.local && d.err == nil {
		d.had = takeStock(d.testbed.Instance)
		d.use()
	}

	d.step("Keep it for longer")
	d.do(onDemo + "Renew 48h")

	d.step("Give it back")
	d.do(onDemo+"Delete", "unallocated")

	d.step("See that nothing is left")
	d.do(onDemo+"Status || true", "SEARCHFAILED (12)")
	for free := -1; d.err == nil && free != before; time.Sleep(100 * time.Millisecond) {
		out, err := d.run(d.ctx, d.command(asAlice+"-o - ListResources"))
		d.err = err
		_, free = offered(out)
	}
	if d.err == nil {
		d.say("%s free, as before.", display.Count(before, "node"))
	}
}

// draw draws a document of the site's folder.
func (d *demo) draw(name string) {
	d.do("patchbay draw " + name + ".xml")
	d.output(fmt.Sprintf("patchbay draw --svg %[1]s.svg %[1]s.xml", name))
	if d.err == nil {
		d.say("The picture: %s.svg%s", filepath.Join(d.dir, name), d.until)
	}
}

// sshConfig makes ssh fail rather than ask. It believes a host key that it sees for the
// first time, for a manifest does not tell it; then the key must stay.
const sshConfig = `BatchMode yes
IdentitiesOnly yes
ConnectTimeout 10
LogLevel ERROR
StrictHostKeyChecking accept-new
UserKnownHostsFile known_hosts
`

// findLogins shows the logins of the nodes, and writes them into ssh_config; nobody is
// behind those of simulated nodes.
func (d *demo) findLogins(manifest string) {
	if d.err != nil {
		return
	}
	var m experiment.Manifest
	if m, d.err = experiment.ReadManifest([]byte(manifest), ""); d.err != nil {
		return
	}
	found := slices.DeleteFunc(m.Nodes, func(n experiment.Node) bool { return !n.Login.Exists() })
	if len(found) != demoNodes {
		d.err = fmt.Errorf("%d nodes are ready, but the manifest has logins for %d", demoNodes, len(found))
		return
	}
	text := sshConfig
	for _, f := range found {
		d.say("%s: ssh -i users/alice/id_ed25519 -p %d %s@%s", f.Name, f.Login.Port, f.Login.User, f.Login.Host)
		text += fmt.Sprintf("Host %s\n  HostName %s\n  Port %d\n  User %s\n  IdentityFile users/%[4]s/id_ed25519\n", f.Name, f.Login.Host, f.Login.Port, f.Login.User)
	}
	if !d.local {
		d.say("(These nodes are simulated: there is nobody to answer.)")
		return
	}
	d.say("The file ssh_config tells ssh the same.")
	d.err = site.ReplaceFile(filepath.Join(d.dir, "ssh_config"), []byte(text), 0o644)
}

// use logs in to the nodes and tries what experimenters rely on.
func (d *demo) use() {
	d.step("Log in, and leave a file")
	d.do(`ssh -F ssh_config server 'echo written before the restart > note; echo "I am $(id -un) on $(hostname)"'`, "I am alice on server")
	d.do(`ssh -F ssh_config near 'echo "I am $(id -un) on $(hostname)"'`, "I am alice on near")
	d.do(`ssh -F ssh_config far 'echo "I am $(id -un) on $(hostname)"'`, "I am alice on far")

	d.step("Log in from one node to the other")
	d.do("ssh -F ssh_config server 'ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new near hostname'", "near")

	d.step("Ask inside a node what it is part of")
	d.do("ssh -F ssh_config server 'geni-get client_id; geni-get slice_urn'", "server", "urn:publicid:IDN+demo.example.org+slice+demo")
	d.do(`ssh -F ssh_config server geni-get manifest | grep -o '<node client_id="[^"]*"'`, `"server"`, `"near"`, `"far"`)

	d.step("Ask the server that was installed, over the LAN")
	const ask = ` 'exec 3<>/dev/tcp/server/80; printf "GET / HTTP/1.0\r\n\r\n" >&3; sed "1,/^\r$/d" <&3'`
	d.do("ssh -F ssh_config near"+ask, "hello from server to 10.0.0.2")
	d.do("ssh -F ssh_config far"+ask, "hello from server to 10.0.0.3")
	d.measure()

	d.step("Restart the nodes; files and host keys stay")
	d.do(onDemo+"restart --wait", "3 ready")
	d.do("ssh -F ssh_config server 'cat note; ls /opt/greet'", "written before the restart", "greet.pl")

	d.step("Let a second user in")
	d.create("patchbay user bob")
	d.do(onDemo+`PerformOperationalAction update_users --wait --login bob`, "3 ready")
	d.do(`ssh -F ssh_config -i users/bob/id_ed25519 -l bob server 'echo "I am $(id -un) on $(hostname)"'`, "I am bob on server")
}

// linkMeasurement is what patchbay-linktest measures: rates on the line, in bit/s, and times
// in ms, of each direction alone, seen from where it was started.
type linkMeasurement struct {
	TCP   struct{ Out, In struct{ Line float64 } }
	Delay struct{ Out, In struct{ Median float64 } }
}

// measure measures the ways between the server and its clients, and shows that
// beside what the request asks for.
func (d *demo) measure() {
	d.step("Measure the LAN, each direction alone")
	d.say("(This takes a quarter of a minute.)")
	d.output("ssh -F ssh_config server 'setsid -f patchbay-linktest serve >/dev/null 2>&1'")
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "    from\tto\tcapacity asked\tmeasured\tlatency asked\tmeasured\n")
	for _, asked := range []struct{ node, out, in, delay string }{
		{"near", "100", "100", "2"},
		{"far", "2", "10", "25"},
	} {
		out := d.output("ssh -F ssh_config " + asked.node + " 'until patchbay-linktest server --time 2s --only tcp,delay --json 2>/dev/null; do sleep 0.2; done'")
		var g linkMeasurement
		if d.err == nil {
			d.err = json.Unmarshal([]byte(out), &g)
		}
		fmt.Fprintf(t, "    %s\tserver\t%s Mbit/s\t%.3g Mbit/s\t%s ms\t%.3g ms\n", asked.node, asked.out, g.TCP.Out.Line/1e6, asked.delay, g.Delay.Out.Median)
		fmt.Fprintf(t, "    server\t%s\t%s Mbit/s\t%.3g Mbit/s\t%s ms\t%.3g ms\n", asked.node, asked.in, g.TCP.In.Line/1e6, asked.delay, g.Delay.In.Median)
	}
	if d.err == nil {
		t.Flush()
	}
}

// freeAddress is an address of this host with a port that nobody has.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// stock is how much of a testbed is on this host: processes, cgroups, mounts, loop
// devices, and files.
type stock [5]int

// beside tells the counts beside those there were.
func (s stock) beside(had stock) string {
	return fmt.Sprintf("processes %d (were %d), cgroups %d (%d), mounts %d (%d), loop devices %d (%d), files %d (%d)",
		s[0], had[0], s[1], had[1], s[2], had[2], s[3], had[3], s[4], had[4])
}

// takeStock counts what bears the name of the instance. What goes away meanwhile does
// not count.
func takeStock(instance string) (s stock) {
	name := "/" + instance
	holds := func(patterns ...string) bool { return countLines(name, patterns...) > 0 }
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		if holds(dir+"/cgroup", dir+"/cmdline") {
			s[0]++
		}
	}
	s[1] = countBelow(name, "/sys/fs/cgroup", fs.ModeDir)
	s[2] = countLines(name, "/proc/self/mountinfo")
	s[3] = countLines(name, "/sys/block/loop*/loop/backing_file")
	s[4] = countBelow(name, local.Folder, 0) + countBelow(name, "/var/lib/patchbay-local", 0)
	return s
}

// countLines counts the lines of files that hold text.
func countLines(text string, patterns ...string) (n int) {
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for line := range bytes.Lines(b) {
				if bytes.Contains(line, []byte(text)) {
					n++
				}
			}
		}
	}
	return n
}

// countBelow counts what is below a folder, has at least the bits of mode, and has name in
// its path, or begins its link with it.
func countBelow(name, folder string, mode fs.FileMode) (n int) {
	filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		target, _ := os.Readlink(path)
		if d.Type()&mode == mode && (strings.Contains(path, name) || strings.HasPrefix("/"+target, name)) {
			n++
		}
		return nil
	})
	return n
}
