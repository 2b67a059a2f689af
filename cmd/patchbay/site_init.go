package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

const initLong = `Make a site in DIR, a folder that is new or empty: configuration, inventory,
server certificates, the trust folder, a provider, and a private trial
authority whose users the site trusts. Nothing is asked, but at a terminal
whether nodes of the local testbed shall reach the network outside, and nothing
leaves the host; every file is commented and meant to be edited.`

func (o *initOptions) Validate(args []string) (err error) {
	if o.Dir, err = oneArgument(args, "the folder to make"); err != nil {
		return err
	}
	switch o.Provider {
	case simulatedName, localName:
	default:
		return fmt.Errorf("--provider %q: init can set up %s and %s; a provider of your own goes into the site's folder providers/ afterwards", o.Provider, localName, simulatedName)
	}
	switch {
	case o.Outbound == "" || o.Outbound == "no" || o.Outbound == "yes" && o.Provider == localName:
	case o.Outbound == "yes":
		return errors.New("--outbound yes needs nodes that exist; --provider simulated has none")
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

// portOf is the port that a URL names, empty if it names none.
func portOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Port()
}

func (o *initOptions) Run(ctx context.Context, c console) error {
	note := ""
	if o.Authority == "" {
		if o.Authority = site.FullName(ctx); o.Authority == "" || !urn.ValidAuthority(o.Authority) {
			return errors.New("this host has no name of its own to name the site by; give one, for example --authority testbed.example.org")
		}
		if !strings.Contains(o.Authority, ".") {
			note = fmt.Sprintf("The site is named %s after this host. Before it joins a federation, make it again\nwith --authority and a name that nobody else has, like testbed.example.org.\n\n", o.Authority)
		}
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	helper, err := findProgram("patchbay-local")
	if err != nil {
		return err
	}
	if err := requireEmpty(dir); err != nil {
		return err
	}
	if o.asks && o.Outbound == "" && o.Provider == localName {
		o.Outbound = askOutbound(os.Stdin, c.out)
	}
	offer, err := o.offer(ctx, helper)
	if err != nil {
		return err
	}
	if err := o.write(ctx, dir, offer.files, time.Now()); err != nil {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			return fmt.Errorf("cannot make the site: %w; what init has put into %s is incomplete: remove that and try again", err, dir)
		}
		return fmt.Errorf("cannot make the site: %w; nothing was made", err)
	}
	file := filepath.Join(dir, site.ConfigName)
	fmt.Fprintf(c.out, initDone, o.Authority, dir, offer.inventory, o.Provider, offer.request, note+o.clientsAt(ctx),
		offer.start(dir, display.CommandAt(file, "serve")), display.CommandAt(file, "user", "ann"), display.CommandAt(file, "slice", "first", "--owner", "ann"), offer.policy)
	return nil
}

const initDone = `Made the site %[1]s in %[2]s:

  patchbay.yaml     its configuration
  inventory.yaml    what it offers: %[3]s
  policy.yaml       who may have what of it: %[10]s
  trusted/          whose users may come: now those of authority/
  providers/        who makes slivers: %[4]s
  server-*.pem      the server's certificates and keys
  authority/        the trial authority; keep it private
  request.xml       what an experimenter may ask for: %[5]s

%[6]s%[7]s  %[8]s
  %[9]s
`

// clientsAt says where clients will find the site.
func (o *initOptions) clientsAt(ctx context.Context) string {
	public := o.PublicURL
	if public == "" {
		public = site.PublicURLOf(ctx, o.Listen)
	}
	u, err := url.Parse(public)
	switch {
	case err != nil || u.Port() == "0":
		return "Clients will use the URL that serve prints.\n\n"
	case site.IsLocalName(u.Hostname()):
		verb := "resolve"
		if site.IsLoopbackName(u.Hostname()) {
			verb = "reach"
		}
		remedy := "make the site again with --public-url"
		if o.PublicURL != "" {
			remedy = "make the site again with another --public-url"
		}
		return fmt.Sprintf("Clients will use %s.\nClients elsewhere cannot %s %s: set public_url in %s, or %s.\n\n",
			public, verb, u.Hostname(), site.ConfigName, remedy)
	}
	return fmt.Sprintf("Clients will use %s.\n\n", public)
}

// requireEmpty makes sure that dir is empty or not there, and touches nothing.
func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot look into %s: %w", dir, err)
	case len(entries) == 0:
		return nil
	}
	what := "is not empty"
	for _, e := range entries {
		if e.Name() == site.ConfigName {
			what = "holds a site already"
		}
	}
	return fmt.Errorf("%s %s and was left as it is; give a new folder", dir, what)
}

// write makes the site in dir, with the files of its offer.
func (o *initOptions) write(ctx context.Context, dir string, offer []siteFile, now time.Time) error {
	var host string
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil {
			return err
		}
		host = u.Hostname()
	}
	listen, _, _ := net.SplitHostPort(o.Listen)
	hosts, ips := site.HostNames(ctx, host, listen)
	manager := urn.URN{Authority: o.Authority, Type: urn.Authority, Name: "cm"}

	if err := os.MkdirAll(dir, 0o700); err != nil { // a new one belongs to whoever makes the site
		return err
	}
	authority, err := trial.Create(filepath.Join(dir, site.AuthorityDir), o.Authority, now)
	if err != nil {
		return err
	}
	files := append(offer,
		siteFile{filepath.Join(site.TrustedDir, "trial.pem"), authority.Certificate(), 0o644})
	for _, kind := range []string{"ecdsa", "rsa"} {
		certificate, key, err := serverPair(kind, manager, hosts, ips, now)
		if err != nil {
			return err
		}
		files = append(files,
			siteFile{"server-" + kind + ".pem", certificate, 0o644},
			siteFile{"server-" + kind + "-key.pem", key, 0o600})
	}
	return writeFiles(dir, append(files, siteFile{site.ConfigName, site.ConfigText(o.Authority, o.Listen, o.PublicURL), 0o644}))
}

// writeFiles writes files below dir, replacing each as a whole.
func writeFiles(dir string, files []siteFile) error {
	for _, f := range files {
		if err := site.ReplaceFile(filepath.Join(dir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}
