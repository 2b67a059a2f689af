package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/client/ownsite"
	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
)

const initLong = `Create a site in DIR, a new or empty folder: configuration, inventory, server
certificates, the trust folder, a provider, and a private trial authority whose users the
site trusts. With --provider local it asks (at a terminal) whether nodes may reach the
Internet; otherwise it asks nothing. It sends nothing over the network. Every file is
commented and meant to be edited.`

type initOptions struct {
	Dir       string
	Authority string
	Provider  string
	Listen    string
	PublicURL string
	Outbound  string
	Trial     bool

	asks bool // ask at a terminal; false in tests
}

func (o *initOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Authority, "authority", "", "the site's name in URNs, unique in its federation (default: the host's full name)")
	fs.StringVar(&o.Provider, "provider", create.Simulated, "the provider: local, with containers of this host as nodes, or simulated (add others to the site's folder providers/ later)")
	fs.StringVar(&o.Listen, "listen", "", "address and port for clients (default: the port of --public-url, or :8443)")
	fs.StringVar(&o.PublicURL, "public-url", "", "https://HOST:PORT as clients reach it (default: the host's full name and the port)")
	fs.StringVar(&o.Outbound, "outbound", "", "yes or no: whether nodes of the local testbed may reach the Internet through this host (default: asked at a terminal, else no)")
	fs.BoolVar(&o.Trial, "trial-authority", false, "serve the trial authority, so that omni and jFed log in here (default: only if the public URL is a loopback address)")
	o.asks = true
}

func (o *initOptions) Validate(args []string) (err error) {
	if o.Dir, err = command.OneArgument(args, "the folder to create"); err != nil {
		return err
	}
	switch o.Provider {
	case create.Simulated, create.Local:
	default:
		return fmt.Errorf("--provider %q: init can set up %s and %s; a provider of your own goes into the site's folder providers/ afterwards", o.Provider, create.Local, create.Simulated)
	}
	switch {
	case o.Outbound == "" || o.Outbound == "no" || o.Outbound == "yes" && o.Provider == create.Local:
	case o.Outbound == "yes":
		return errors.New("--outbound yes needs real nodes; --provider simulated has none")
	default:
		return fmt.Errorf("--outbound %q is neither yes nor no", o.Outbound)
	}
	if o.Authority != "" && (!urn.ValidAuthority(o.Authority) || site.IsLoopbackName(o.Authority)) {
		return fmt.Errorf("--authority %q cannot name a site; a good name is like testbed.example.org", o.Authority)
	}
	if o.PublicURL != "" {
		o.PublicURL = strings.TrimSuffix(o.PublicURL, "/")
		if err := site.CheckPublicURL(o.PublicURL); err != nil {
			return fmt.Errorf("--public-url %w", err)
		}
	}
	if o.Listen == "" {
		o.Listen = ":" + cmp.Or(portOf(o.PublicURL), "8443")
	}
	if err := site.CheckAddress(o.Listen); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	return nil
}

// portOf returns "" for a URL without a port.
func portOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Port()
}

func (o *initOptions) Run(ctx context.Context, c command.Console) error {
	note := ""
	if o.Authority == "" {
		if o.Authority = site.FullName(ctx); o.Authority == "" || !urn.ValidAuthority(o.Authority) {
			return errors.New("this host has no full name for the site; give one, for example --authority testbed.example.org")
		}
		if !strings.Contains(o.Authority, ".") {
			note = fmt.Sprintf("The site is named %s after this host. Before it joins a federation, create it again\nwith --authority and a unique name, like testbed.example.org.\n\n", o.Authority)
		}
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	helper, err := ownsite.FindProgram("patchbay-local")
	if err != nil {
		return err
	}
	if err := create.RequireEmpty(dir); err != nil {
		return err
	}
	if o.asks && o.Outbound == "" && o.Provider == create.Local {
		o.Outbound = askOutbound(os.Stdin, c.Out)
	}
	offer, err := create.Site(ctx, create.Options{
		Dir: dir, Authority: o.Authority, Provider: o.Provider, Listen: o.Listen, PublicURL: o.PublicURL, Outbound: o.Outbound == "yes", Program: helper,
		Serve: o.Trial || o.isLoopback(ctx),
	})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, site.ConfigName)
	fmt.Fprintf(c.Out, initDone, o.Authority, dir, offer.Inventory, o.Provider, offer.Request, note+o.clientsAt(ctx),
		o.start(dir, helper, session.ServeCommand(file)), display.CommandAt(file, "user", "alice"), display.CommandAt(file, "slice", "first", "--owner", "alice"), offer.Policy)
	return nil
}

const initDone = `Created the site %[1]s in %[2]s:

  patchbay.yaml     its configuration
  inventory.yaml    nodes and links: %[3]s
  policy.yaml       rules for users: %[10]s
  trusted/          trusted authorities: so far only authority/
  providers/        programs that create slivers: %[4]s
  server-*.pem      the server's certificates and keys; clients that check the
                    server trust both server-ecdsa.pem and server-rsa.pem
  authority/        the trial authority; keep it private
  request.xml       an example of a request: %[5]s

%[6]s%[7]s  %[8]s
  %[9]s
`

// start returns the next steps: to prepare the nodes, and to serve the site with serveLine.
func (o *initOptions) start(dir, helper, serveLine string) string {
	switch simulated := o.Provider == create.Simulated; {
	case session.IsService(dir) && simulated:
		return "Next:\n  " + serveLine + "\n"
	case session.IsService(dir):
		return fmt.Sprintf(startService, display.AsRoot(helper, "doctor"))
	case simulated:
		return "Next:\n  " + serveLine + "\nand in another terminal:\n"
	}
	up := display.AsRoot(helper, "up", filepath.Join(dir, site.ProvidersDir, create.Local+".yaml"))
	text := startAsUser
	if os.Geteuid() == 0 {
		text = startAsRoot
	}
	return fmt.Sprintf(text, display.AsRoot(helper, "doctor"), up, serveLine)
}

// publicURL returns the URL at which clients reach the site.
func (o *initOptions) publicURL(ctx context.Context) string {
	return cmp.Or(o.PublicURL, site.PublicURLOf(ctx, o.Listen))
}

// isLoopback reports whether only this host can reach the site.
func (o *initOptions) isLoopback(ctx context.Context) bool {
	u, err := url.Parse(o.publicURL(ctx))
	return err == nil && site.IsLoopbackName(u.Hostname())
}

// clientsAt returns a note with the site's URL, and a warning if other machines cannot
// reach it.
func (o *initOptions) clientsAt(ctx context.Context) string {
	public := o.publicURL(ctx)
	u, err := url.Parse(public)
	switch {
	case err != nil || u.Port() == "0":
		return "Clients will use the URL that serve prints.\n\n"
	case site.IsLocalName(u.Hostname()):
		verb := "resolve"
		if site.IsLoopbackName(u.Hostname()) {
			verb = "reach"
		}
		remedy := "create the site again with --public-url"
		if o.PublicURL != "" {
			remedy = "create the site again with another --public-url"
		}
		return fmt.Sprintf("Clients will use %s.\nClients elsewhere cannot %s %s: set public_url in %s, or %s.\n\n",
			public, verb, u.Hostname(), site.ConfigName, remedy)
	}
	return fmt.Sprintf("Clients will use %s.\n\n", public)
}

const startAsUser = `Check that this host can run nodes:
  %[1]s
Next, start the program that runs them:
  %[2]s
in another terminal:
  %[3]s
and in a third:
`

const startAsRoot = `Check that this host can run nodes:
  %[1]s
Next, start the server; as root it also starts the program that runs nodes:
  %[3]s
To start it separately:
  %[2]s
And in another terminal:
`

const startService = `Check that this host can run nodes:
  %[1]s
Next, start both services:
  sudo systemctl enable --now patchbay-local patchbay
`

const outboundQuestion = `May nodes reach the Internet (IPv4 only) through this host, with its address? They will
not reach private networks or this host. To change it later, set outbound in
providers/local.yaml, then type: patchbay reload. [y/N] `

// askOutbound returns "yes" or "no"; "no" without a terminal.
func askOutbound(in *os.File, out io.Writer) string {
	if !command.ToTerminal(in) || !command.ToTerminal(out) {
		return "no"
	}
	if command.AnswersYes(in, out, outboundQuestion) {
		return "yes"
	}
	return "no"
}
