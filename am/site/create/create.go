package create

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// Providers that a new site can have.
const (
	Simulated = "simulated"
	Local     = "local"
)

// Options describe a new site.
type Options struct {
	Dir       string // the folder, new or empty
	Authority string
	Provider  string // Simulated or Local
	Listen    string // the address and port for clients
	PublicURL string // the URL for clients; "" for a URL with the host's full name
	Serve     bool   // serve the trial authority
	Outbound  bool   // nodes of the local testbed reach the outside network
	Program   string // the path of patchbay-local
}

// Site creates a site and returns a description of its offer.
func Site(ctx context.Context, o Options) (Offer, error) {
	offer, err := o.offer(ctx)
	if err != nil {
		return offer, err
	}
	if err := o.write(ctx, offer.files, time.Now()); err != nil {
		if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
			return offer, fmt.Errorf("cannot create the site: %w; the files that init wrote to %s are incomplete: remove them and try again", err, o.Dir)
		}
		return offer, fmt.Errorf("cannot create the site: %w; nothing was written", err)
	}
	return offer, nil
}

// RequireEmpty fails unless dir is empty or does not exist. It changes nothing.
func RequireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot read %s: %w", dir, err)
	case len(entries) == 0:
		return nil
	}
	what := "is not empty"
	for _, e := range entries {
		if e.Name() == site.ConfigName {
			what = "has a site already"
		}
	}
	return fmt.Errorf("%s %s and was not changed; name a new folder", dir, what)
}

func (o *Options) write(ctx context.Context, offer []site.File, now time.Time) error {
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

	if err := os.MkdirAll(o.Dir, 0o700); err != nil { // a new folder belongs to the user that creates the site
		return err
	}
	authority, err := trial.Create(filepath.Join(o.Dir, site.AuthorityDir), o.Authority, now)
	if err != nil {
		return err
	}
	files := append(offer,
		site.File{Name: filepath.Join(site.TrustedDir, "trial.pem"), Content: authority.Certificate(), Mode: 0o644})
	for _, kind := range []string{"ecdsa", "rsa"} {
		certificate, key, err := newServerCertificate(kind, manager, hosts, ips, now)
		if err != nil {
			return err
		}
		files = append(files,
			site.File{Name: "server-" + kind + ".pem", Content: certificate, Mode: 0o644},
			site.File{Name: "server-" + kind + "-key.pem", Content: key, Mode: 0o600})
	}
	return site.WriteFiles(o.Dir, append(files, site.File{Name: site.ConfigName, Content: site.ConfigText(o.Authority, o.Listen, o.PublicURL, o.Serve), Mode: 0o644}))
}
