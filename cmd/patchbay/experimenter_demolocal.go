package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
)

// chooseLocal tells whether the nodes will be containers of this host. Where
// they cannot be, it says why; that is an error if they were asked for.
func (o *demoOptions) chooseLocal(ctx context.Context, s *stage) (bool, error) {
	if o.Provider == simulatedName {
		return false, nil
	}
	reason := unfit(ctx)
	switch {
	case reason == "":
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case o.Provider == localName:
		return false, fmt.Errorf("nodes cannot be containers of this host: %s", reason)
	}
	s.say("The nodes of this demonstration are simulated; they cannot be containers of this host:\n%s", reason)
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

// state is where the testbed keeps its nodes, for this demonstration only.
func (d *demo) state() string { return filepath.Join(d.temporary, "state") }

// restless lets no port rest for longer than the demonstration lasts; done puts
// the settings back.
func restless(settings string) (done func() error, err error) {
	text, err := os.ReadFile(settings)
	if err != nil {
		return nil, err
	}
	const rests = "\nport_rest: "
	before, after, ok := strings.Cut(string(text), rests)
	if !ok {
		return nil, fmt.Errorf("%s has no port_rest", settings)
	}
	_, after, _ = strings.Cut(after, "\n")
	now := []byte(before + rests + "0s\n" + after)
	return func() error { return site.ReplaceFile(settings, text, 0o644) }, site.ReplaceFile(settings, now, 0o644)
}

// testbedAnswers waits until the testbed of the served site answers.
func (d *demo) testbedAnswers(ctx context.Context, s *site.Site) error {
	for end := time.Now().Add(s.Testbeds.Patience); !d.testbed.Runs(ctx, s.Testbeds.Socket); {
		if time.Now().After(end) {
			return errors.New("the local testbed does not answer")
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	d.say("As root, that starts what makes the nodes, too: patchbay-local up")
	return nil
}

// use logs in to the nodes and tries what experimenters rely on.
func (d *demo) use(ctx context.Context, doors []login) error {
	d.had = takeStock(d.testbed.Instance, d.temporary)
	at := make(map[string]login)
	for _, l := range doors {
		at[l.node] = l
	}
	server, near, far := at["server"], at["near"], at["far"]

	d.step("Log in, and leave a file", d.sshLine("ann", server, writeNote), d.sshLine("ann", near, whoAmI), d.sshLine("ann", far, whoAmI))
	if err := d.ssh(ctx, "ann", server, writeNote, "I am ann on server\n"); err != nil {
		return err
	}
	if err := d.ssh(ctx, "ann", near, whoAmI, "I am ann on near\n"); err != nil {
		return err
	}
	if err := d.ssh(ctx, "ann", far, whoAmI, "I am ann on far\n"); err != nil {
		return err
	}

	d.step("Log in from one node to the other", d.sshLine("ann", server, nextDoor))
	if err := d.ssh(ctx, "ann", server, nextDoor, "I am ann on near\n"); err != nil {
		return err
	}

	d.step("Ask inside a node what it is part of", d.sshLine("ann", server, whatAmI))
	if err := d.ssh(ctx, "ann", server, whatAmI, "server\n"+d.slice+"\nclient_id=\"server\"\nclient_id=\"near\"\nclient_id=\"far\"\n"); err != nil {
		return err
	}

	d.step("Ask the server that was installed, over the LAN", d.sshLine("ann", near, askServer), d.sshLine("ann", far, askServer))
	if err := d.ssh(ctx, "ann", near, askServer, "hello from server to 10.0.0.2\n"); err != nil {
		return err
	}
	if err := d.ssh(ctx, "ann", far, askServer, "hello from server to 10.0.0.3\n"); err != nil {
		return err
	}
	if err := d.measure(ctx, server, near, far); err != nil {
		return err
	}
	if err := d.restart(ctx, server); err != nil {
		return err
	}
	return d.share(ctx, server)
}

// restart restarts the nodes. A host key that was another would be refused.
func (d *demo) restart(ctx context.Context, at login) error {
	d.step("Restart the nodes; files and host keys stay", d.callLine("PerformOperationalAction", "restart"), d.sshLine("ann", at, readNote))
	s, _, err := d.client.PerformOperationalAction(ctx, []string{d.slice}, d.creds, string(am.ActionRestart), client.Options{})
	if err != nil {
		return err
	}
	d.slivers(s)
	if err := d.await(ctx, am.Ready); err != nil {
		return err
	}
	return d.ssh(ctx, "ann", at, readNote, "written before the restart\ngreet.pl\n")
}

// What is done inside the nodes.
const (
	whoAmI    = `echo "I am $(id -un) on $(hostname)"`
	writeNote = `echo written before the restart > note; ` + whoAmI
	readNote  = `cat note; ls /opt/greet`
	nextDoor  = `ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new near '` + whoAmI + `'`
	whatAmI   = `geni-get client_id; geni-get slice_urn; geni-get manifest | grep -o '<node client_id="[^"]*"' | cut -d ' ' -f 2`
	askServer = `exec 3<>/dev/tcp/server/80; printf 'GET / HTTP/1.0\r\n\r\n' >&3; sed '1,/^\r$/d' <&3`
)

// share gives a second user an account.
func (d *demo) share(ctx context.Context, at login) error {
	bob, _, err := d.trial.user("bob", false, time.Now())
	if err != nil {
		return err
	}
	user := client.User{URN: bob.URN.String(), Keys: []string{string(bob.SSHPublicKey)}}
	d.step("Let a second user in", d.command("user", "bob"),
		d.callLine("PerformOperationalAction", "update_users")+fmt.Sprintf(` --option geni_users="[{\"urn\":\"%s\",\"keys\":[\"$(cat users/bob/id_ed25519.pub)\"]}]"`, bob.URN),
		d.sshLine("bob", at, whoAmI))
	s, _, err := d.client.PerformOperationalAction(ctx, []string{d.slice}, d.creds, string(am.ActionUpdateUsers), client.Options{Users: []client.User{user}})
	if err != nil {
		return err
	}
	d.slivers(s)
	if err := d.await(ctx, am.Ready); err != nil {
		return err
	}
	return d.ssh(ctx, "bob", at, whoAmI, "I am bob on server\n")
}

// sshOptions make ssh fail rather than ask, and heed nothing of the user's.
var sshOptions = []string{"-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"}

// sshWords logs in as a user and runs a command. A host key is believed when it
// is seen first, for a manifest does not tell it; then it must stay.
func sshWords(user string, at login, command string) []string {
	return []string{"-i", filepath.Join(site.UsersDir, user, "id_ed25519"), "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=known_hosts",
		"-p", at.port, user + "@" + at.host, command}
}

// sshLine is the command to do by hand what ssh does.
func (d *demo) sshLine(user string, at login, command string) string {
	return display.ShellLine(append([]string{"ssh"}, sshWords(user, at, command)...))
}

// ssh runs a command in a node, whose output must be as wanted.
func (d *demo) ssh(ctx context.Context, user string, at login, command, want string) error {
	cmd := exec.CommandContext(ctx, "ssh", slices.Concat(sshOptions, sshWords(user, at, command))...)
	cmd.Dir = d.dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	text := strings.TrimRight(string(out), "\n")
	if text != "" {
		d.tick("%s at %s: %s", user, at.node, strings.ReplaceAll(text, "\n", "\n       "))
	}
	switch said := strings.TrimSpace(problems.String()); {
	case err != nil:
		return fmt.Errorf("%s: %w: %s", d.sshLine(user, at, command), err, said)
	case string(out) != want:
		return fmt.Errorf("%s: it says %q, not %q: %s", d.sshLine(user, at, command), out, want, said)
	}
	return nil
}

// leave removes what is left of the testbed, whatever happened before, and holds
// that nothing of it is on this host any more. err is what happened before.
func (d *demo) leave(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		d.lastWords()
	}
	if d.testbed == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	words := []string{d.testbed.Program, "clean", "--state", d.state(), d.testbed.Settings}
	if err == nil {
		d.step("See that the host is as before", display.ShellLine(words))
	}
	clean := exec.CommandContext(ctx, words[0], words[1:]...)
	clean.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	out, cleaned := clean.CombinedOutput()
	if cleaned != nil {
		err = errors.Join(err, fmt.Errorf("cannot clean up: %w: %s; try again: %s", cleaned, strings.TrimSpace(string(out)), display.ShellLine(words)))
	}
	if d.settle != nil {
		err = errors.Join(err, d.settle())
	}
	left := takeStock(d.testbed.Instance, d.temporary)
	for end := time.Now().Add(3 * time.Second); left != (stock{}) && time.Now().Before(end); left = takeStock(d.testbed.Instance, d.temporary) {
		time.Sleep(20 * time.Millisecond) // the kernel frees some things a little later
	}
	d.say("Of the testbed are left: %s.", left.of(d.had))
	if left != (stock{}) {
		err = errors.Join(err, fmt.Errorf("something of the testbed %s is left on this host: %s", d.testbed.Instance, left.of(d.had)))
	}
	return err
}

// lastWords shows the end of the log, which will be gone with the site, without
// the calls.
func (d *demo) lastWords() {
	text, err := os.ReadFile(filepath.Join(d.dir, "serve.log"))
	if err != nil {
		return
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool { return strings.Contains(line, " msg=call ") })
	d.say("--- the end of the log\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
}
