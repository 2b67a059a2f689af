package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
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
	if o.Provider != "" && o.Provider != localName && o.Provider != simulatedName {
		return fmt.Errorf("--provider %q is neither %s nor %s", o.Provider, localName, simulatedName)
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
	temporary, err := os.MkdirTemp("", "patchbay-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := o.Keep
	d := &demo{stage: newStage(c.out), temporary: temporary}
	if dir == "" {
		dir = filepath.Join(temporary, "site")
		d.until = " (until this ends; --keep DIR keeps it)"
	}
	if d.local, err = o.chooseLocal(ctx, d.stage); err != nil {
		return err
	}
	err = d.open(ctx, dir)
	if err == nil {
		err = errors.Join(d.play(ctx), d.close())
	}
	if d.local {
		err = d.leave(ctx, err)
	}
	if err != nil {
		return err
	}
	if o.Keep != "" {
		fmt.Fprintf(c.out, "The site is kept; serve it with:\n  %s\n", display.CommandAt(filepath.Join(d.dir, site.ConfigName), "serve"))
	}
	return nil
}

// demo is a site being served in this process, and a user of it.
type demo struct {
	*stage
	local     bool // the nodes are containers of this host
	temporary string
	dir       string
	until     string        // how long files in it last, if not for good
	testbed   *site.Testbed // that makes them
	settle    func() error  // puts its settings back
	had       stock         // what of it was on the host when they were up
	trial     *trialSite
	user      *trialUser
	client    *client.Client
	slice     string // URN
	creds     []client.Credential
	stop      context.CancelFunc
	ended     chan error
	log       *os.File
}

// open makes and serves the site, and gives it a user and a slice. Commands are
// shown as they are typed in the site's folder.
func (d *demo) open(ctx context.Context, dir string) (err error) {
	if d.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	file := filepath.Join(d.dir, site.ConfigName)
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	init := &initOptions{Authority: "demo.example.org", Provider: simulatedName, Listen: addr}
	if d.local {
		init.Provider = localName
	}
	d.step("Make a site", display.Command("init", "--authority", init.Authority, "--provider", init.Provider, "--listen", init.Listen, d.dir),
		display.ShellLine([]string{"cd", d.dir}))
	if err := init.Validate([]string{d.dir}); err != nil {
		return err
	}
	if err := init.Run(ctx, console{io.Discard, io.Discard}); err != nil {
		return err
	}
	d.say("%s: a configuration, an inventory, keys, and an authority of its own.", init.Authority)

	d.step("Serve it", d.command("serve"))
	config, err := site.ReadConfig(file)
	if err != nil {
		return err
	}
	config.Admin = "127.0.0.1:0" // the next port may be somebody's
	if d.log, err = openOutput(filepath.Join(d.dir, "serve.log"), os.O_TRUNC); err != nil {
		return err
	}
	s, err := site.Open(ctx, config, config.Log.New(d.log))
	if err != nil {
		return errors.Join(err, d.log.Close())
	}
	if d.local {
		if d.testbed, err = site.OpenTestbed(config.Providers, localName); err != nil {
			return errors.Join(err, s.Close(), d.log.Close())
		}
		if d.settle, err = restless(d.testbed.Settings); err != nil {
			return errors.Join(err, s.Close(), d.log.Close())
		}
		s.Testbeds.State = d.state()
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop, d.ended = stop, make(chan error, 1)
	go func() { d.ended <- s.Run(serving, nil) }()
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	d.say("%s", s.Announcement())
	if d.local {
		if err := d.testbedAnswers(ctx, s); err != nil {
			return err
		}
	}

	now := time.Now()
	d.step("Make a user and a slice", d.command("user", "ann"), d.command("slice", "demo", "--owner", "ann"))
	if d.trial, err = openTrial(ctx, config, d.dir); err != nil {
		return err
	}
	if d.user, _, err = d.trial.user("ann", false, now); err != nil {
		return err
	}
	slice, _, _, err := d.trial.slice("demo", "ann", now.Add(7*24*time.Hour), now)
	if err != nil {
		return err
	}
	d.slice = slice.URN.String()
	d.creds = []client.Credential{{Text: string(slice.Credential)}}
	d.say("%s\n%s, until %s", d.user.URN, d.slice, slice.Expires.Format(time.RFC3339))
	d.client, err = client.New(client.Config{URL: d.trial.URL, CertFile: d.user.path("cert.pem"), KeyFile: d.user.path("key.pem")})
	return err
}

// command is a command line for the site's folder: there a relative path to
// this program would not do.
func (d *demo) command(args ...string) string {
	name := display.Program
	if strings.ContainsRune(name, filepath.Separator) {
		if path, err := filepath.Abs(name); err == nil {
			name = path
		}
	}
	return display.ShellLine(append([]string{name}, args...))
}

// close stops serving.
func (d *demo) close() error {
	if d.client != nil {
		d.client.Close()
	}
	d.stop()
	return errors.Join(<-d.ended, d.log.Close())
}

// freeAddress is an address of this host with a port that nobody has.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
