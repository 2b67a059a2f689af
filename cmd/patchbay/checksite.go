package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"patchbay/am/mtls"
	"patchbay/credentials/cert"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// soon is how long before its end a certificate is warned about.
const soon = 30 * 24 * time.Hour

// site checks a configuration and all it names.
func (k *checker) site(ctx context.Context, file string) {
	c, err := ReadConfig(file)
	if err != nil {
		k.errors(err)
		return
	}
	k.config = c
	public := strings.TrimSuffix(c.PublicURL, "/")
	if public == "" {
		public = publicURL(ctx, c.Listen)
	}
	k.good(file, "site %s, for clients at %s", c.Authority, public)
	u, err := url.Parse(public)
	if err == nil && isLoopbackName(u.Hostname()) {
		k.warn(file, "clients elsewhere cannot reach %s, and jFed refuses it; set public_url to the host's name in the network", public)
	}
	k.serverKeys(c, u.Hostname())
	inv := k.inventory(c.Inventory, c.Authority)
	k.trustFolder(c.Trusted)
	k.providers(c.Providers, inv)
}

func (k *checker) inventory(file, authority string) *inventory.Inventory {
	inv, err := inventory.Load(file, authority)
	if err != nil {
		k.errors(err)
		return nil
	}
	exclusive := 0
	for _, c := range inv.Components {
		if c.Exclusive {
			exclusive++
		}
	}
	k.good(file, "%s (%d exclusive), %s, %s", plural(len(inv.Components), "component"), exclusive,
		plural(len(inv.SliverTypes), "sliver type"), plural(len(inv.Images), "image"))
	return inv
}

// trustFolder lists each anchor with the authorities it covers and its end.
func (k *checker) trustFolder(dir string) {
	a, problems, err := cert.LoadAnchors(dir)
	if err != nil {
		k.bad(dir, "%v; make the folder and put the certificates of authorities into it", err)
		return
	}
	for _, p := range problems {
		k.bad("", "%s", p)
	}
	if len(a.List()) == 0 {
		k.bad(dir, "it holds no certificate, so nobody may call; put the root of your federation into it as NAME.pem")
	}
	for _, x := range a.List() {
		k.anchor(x)
	}
}

func (k *checker) anchor(x cert.Anchor) {
	covers := "nothing: it has no URN; name its authorities in a file beside it, NAME.authorities"
	if list := x.Covers(); len(list) > 0 {
		covers = strings.Join(list, ", ") + " and below"
	}
	name := x.Certificate.URN.String()
	if name == "" {
		name = x.Certificate.Subject.String()
	}
	end := x.Certificate.NotAfter.UTC()
	switch left := time.Until(end); {
	case left < 0:
		k.bad(x.File, "%s ended on %s; get the authority's new certificate", name, end.Format(time.DateOnly))
	case left < soon:
		k.warn(x.File, "%s covers %s; it ends on %s", name, covers, end.Format(time.DateOnly))
	default:
		k.good(x.File, "%s covers %s, until %s", name, covers, end.Format(time.DateOnly))
	}
}

func (k *checker) providers(dir string, inv *inventory.Inventory) {
	found, problems := provider.Load(dir)
	for _, p := range problems {
		k.errors(p)
	}
	for _, p := range found {
		k.provider(p)
	}
	if inv != nil {
		for _, err := range missingProviders(found, inv) {
			k.errors(err)
		}
	}
}

func (k *checker) provider(p *provider.Provider) {
	k.good(p.Path, "provider %s of type %s, %s", p.Name, p.Type, plural(len(p.Attributes), "attribute"))
}

// serverKeys checks that the server's certificates load, are those of their
// keys, are not over, and are for the host in the public URL.
func (k *checker) serverKeys(c *Config, host string) {
	t, err := mtls.New(c.tls(slog.New(slog.DiscardHandler)))
	if err != nil {
		k.errors(err)
		return
	}
	t.Close()
	for _, pair := range c.Keys {
		text, err := os.ReadFile(pair.Certificate)
		if err != nil {
			k.errors(err)
			continue
		}
		block, _ := pem.Decode(text)
		if block == nil {
			continue // mtls.New has read it, so there is one in another form
		}
		x, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			k.warn(pair.Certificate, "%v; clients may refuse it, too", err)
			continue
		}
		end := x.NotAfter.UTC().Format(time.DateOnly)
		switch left := time.Until(x.NotAfter); {
		case left < 0:
			k.bad(pair.Certificate, "it ended on %s; make a new one", end)
		case x.VerifyHostname(host) != nil:
			k.warn(pair.Certificate, "it is not for %s, so jFed will refuse it; it is for %s", host, strings.Join(x.DNSNames, ", "))
		case left < soon:
			k.warn(pair.Certificate, "it ends on %s; make a new one", end)
		default:
			k.good(pair.Certificate, "%s certificate for %s, until %s", x.PublicKeyAlgorithm, strings.Join(x.DNSNames, ", "), end)
		}
	}
}
