package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/mtls"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
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
	k.config, file = c, c.origin.file
	public := strings.TrimSuffix(c.PublicURL, "/")
	if public == "" {
		public = publicURL(ctx, c.Listen)
	}
	k.good(file, "site %s, for clients at %s", c.Authority, public)
	u, err := url.Parse(public)
	switch {
	case err != nil:
	case isLoopbackName(u.Hostname()):
		k.warn(file, "clients elsewhere cannot reach %s, and jFed refuses it; set public_url to the host's name in the network", public)
	case isLocalName(u.Hostname()):
		k.warn(file, "clients elsewhere cannot resolve the name %s of %s; set public_url to the host's full name", u.Hostname(), public)
	}
	there := func(err error) bool {
		if err != nil {
			k.errors(err)
		}
		return err == nil
	}
	if there(c.checkKeyFiles()) {
		k.serverKeys(c, u.Hostname())
	}
	var inv *inventory.Inventory
	if there(c.checkFile("inventory", c.Inventory)) {
		inv = k.inventory(c.Inventory, c.Authority)
	}
	if there(c.checkFolder("trusted", c.Trusted)) {
		k.trustFolder(c.Trusted)
	}
	k.trialAuthority(c, filepath.Join(filepath.Dir(file), authorityDir))
	if there(c.checkFolder("providers", c.Providers)) {
		k.providers(ctx, c.Providers, inv, c.Inventory)
	}
	there(c.checkState())
}

// trialAuthority warns of one that is for a site of another name: its users
// would be strangers.
func (k *checker) trialAuthority(c *Config, dir string) {
	a, err := trial.Open(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		k.warn(dir, "the trial authority cannot be used: %v", err)
	case !strings.EqualFold(a.URN().Authority, c.Authority):
		k.warn(dir, "this is the trial authority of %s, but authority is %s in %s; go back to that name, or make a new site with init",
			a.URN().Authority, c.Authority, c.origin.where("authority"))
	}
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
	list := []string{fmt.Sprintf("%s (%d exclusive)", plural(len(inv.Components), "component"), exclusive)}
	for _, x := range []struct {
		n    int
		what string
	}{
		{len(inv.SliverTypes), "sliver type"}, {len(inv.Images), "image"}, {len(inv.Links), "physical link"}, {len(inv.Interfaces), "interface"},
		{len(inv.VLANs), "VLAN tag"}, {len(inv.SharedVLANs), "shared VLAN"}, {len(inv.PublicAddresses), "public address"},
	} {
		if x.n > 0 {
			list = append(list, plural(x.n, x.what))
		}
	}
	k.good(file, "%s", strings.Join(list, ", "))
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
	k.passedOver(dir)
	for _, x := range a.List() {
		if len(x.Covers()) == 0 && x.Certificate.URN.IsZero() {
			continue // that is one of the problems
		}
		k.anchor(x)
	}
}

// passedOver warns of files that look as if they were meant to count.
func (k *checker) passedOver(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		ext := filepath.Ext(file)
		stem := strings.TrimSuffix(file, ext)
		switch strings.ToLower(ext) {
		case ".crt", ".cer", ".cert", ".der":
			k.warn(file, "it is passed over: only *.pem counts; rename it if it is in PEM form, or convert it with: %s",
				shellLine([]string{"openssl", "x509", "-inform", "DER", "-in", file, "-out", stem + ".pem"}))
		case ".key":
			k.warn(file, "PRIVATE KEYS must never lie here; move it away")
		case ".authorities":
			if _, err := os.Stat(stem + ".pem"); errors.Is(err, fs.ErrNotExist) {
				k.warn(file, "it says for whom %s.pem vouches, but there is no such file; give both the same name", filepath.Base(stem))
			}
		case ".pem":
			if ext != ".pem" {
				k.warn(file, "it is passed over: only *.pem, in small letters, counts; rename it")
			}
		}
	}
}

func (k *checker) anchor(x cert.Anchor) {
	list := x.Covers()
	covers := strings.Join(list, ", ") + " and below"
	name := x.Certificate.URN.String()
	if name == "" {
		name = x.Certificate.Subject.String()
	}
	least := defaultConfig().Credentials.MinRSABits
	if k.config != nil {
		least = k.config.Credentials.MinRSABits
	}
	bits := least
	if key, ok := x.Certificate.PublicKey.(*rsa.PublicKey); ok {
		bits = key.N.BitLen()
	}
	end := x.Certificate.NotAfter.UTC()
	switch left := time.Until(end); {
	case left < 0:
		k.bad(x.File, "%s ended on %s; get the authority's new certificate", name, end.Format(time.DateOnly))
	case len(list) == 0 && x.Certificate.URN.IsZero():
		k.warn(x.File, "%s has no URN; as a trusted certificate it needs its authorities in a file beside it, NAME.authorities; it ends on %s", name, end.Format(time.DateOnly))
	case len(list) == 0:
		k.warn(x.File, "%s is no authority, so as a trusted certificate it covers nothing; it ends on %s", name, end.Format(time.DateOnly))
	case bits < least:
		k.warn(x.File, "%s covers %s, but has an RSA key of %d bits, and credentials.min_rsa_bits is %d: what it signs is refused; get a new certificate of the authority",
			name, covers, bits, least)
	case left < soon:
		k.warn(x.File, "%s covers %s; it ends on %s", name, covers, end.Format(time.DateOnly))
	default:
		k.good(x.File, "%s covers %s, until %s", name, covers, end.Format(time.DateOnly))
	}
}

func (k *checker) providers(ctx context.Context, dir string, inv *inventory.Inventory, inventoryFile string) {
	found, problems := provider.Load(dir)
	for _, p := range problems {
		k.errors(p)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		k.provider(ctx, found[name])
	}
	if inv != nil {
		missing, _ := missingProviders(dir, found, inv, inventoryFile)
		for _, err := range missing {
			k.errors(err)
		}
	}
}

// provider asks a provider for a resource that nobody has made.
func (k *checker) provider(ctx context.Context, p *provider.Provider) {
	const remedy = "run it by hand, as PROVIDER.md says"
	name := "check-" + strings.ToLower(rand.Text())
	answer, err := p.Get(ctx, []string{name})
	if err != nil {
		k.bad(p.Path, "get fails: %v; %s", err, remedy)
		return
	}
	r := answer[name]
	switch {
	case r.Err != nil && !p.Has(provider.AttrEnsure) && r.Err.Kind == provider.Unknown: // as it should be
	case r.Err != nil:
		k.bad(p.Path, "get of %s, which nobody has made, fails: %v; it must answer that it is absent; %s", name, r.Err, remedy)
		return
	case p.Has(provider.AttrEnsure) && r.Resource.Text(provider.AttrEnsure) != provider.Absent:
		k.bad(p.Path, "get of %s, which nobody has made, says that it is %q, not absent; %s", name, r.Resource.Text(provider.AttrEnsure), remedy)
		return
	}
	k.good(p.Path, "provider %s of type %s, %s; get works", p.Name, p.Type, plural(len(p.Attributes), "attribute"))
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
