package check

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/server/mtls"
	"patchbay/am/site"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// slowGet is the duration above which a get causes a remark.
const slowGet = time.Second

// Site checks a configuration and all files that it names.
func (k *Checker) Site(ctx context.Context, file string) {
	c, err := site.ReadConfig(file)
	if err != nil {
		k.Errors(err)
		k.note(file, "the other files of the site were not checked, since it names them")
		k.siteFailed = true
		return
	}
	k.Config, file = c, c.Origin.File
	public := strings.TrimSuffix(c.PublicURL, "/")
	if public == "" {
		public = site.PublicURLOf(ctx, c.Listen)
	}
	k.good(file, "site %s, for clients at %s", c.Authority, public)
	u, err := url.Parse(public)
	switch {
	case err != nil:
	case site.IsLoopbackName(u.Hostname()):
		k.warn(file, "clients elsewhere cannot reach %s, and jFed refuses it; set public_url to the host's name in the network", public)
	case site.IsLocalName(u.Hostname()):
		k.warn(file, "clients elsewhere cannot resolve the name %s of %s; set public_url to the host's full name", u.Hostname(), public)
	}
	passed := func(err error) bool {
		if err != nil {
			k.Errors(err)
		}
		return err == nil
	}
	k.ownerAccess(filepath.Dir(file))
	passed(c.CheckMetrics())
	passed(c.CheckWeb())
	if passed(c.CheckKeyFiles()) {
		k.serverKeys(c, u.Hostname())
	}
	var inv *inventory.Inventory
	if passed(c.CheckFile("inventory", c.Inventory)) {
		inv = k.inventory(c.Inventory, c.Authority)
	}
	if inv != nil {
		k.policy(c, inv)
	}
	k.library(c.LibraryFolder())
	k.maintenance(c.Maintenance, inv)
	if passed(c.CheckFolder("trusted", c.Trusted)) {
		k.trustFolder(c.Trusted)
	}
	k.trialAuthority(c, filepath.Join(filepath.Dir(file), site.AuthorityDir))
	if passed(c.CheckFolder("providers", c.Providers)) {
		k.providers(ctx, c.Providers, inv, c.Inventory)
		k.facts(c, inv)
	}
	if passed(c.CheckState()) {
		k.store(ctx, c)
		if inv != nil {
			k.compareInventory(ctx, c)
		}
	}
	k.clock(ctx, c)
	k.Audit(c)
	k.hooks(ctx, c)
}

// trialAuthority warns if the trial authority has another name than the site. The site would not
// trust its users.
func (k *Checker) trialAuthority(c *site.Config, dir string) {
	a, err := trial.Open(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		k.warn(dir, "the trial authority cannot be used: %v", err)
	case !strings.EqualFold(a.URN().Authority, c.Authority):
		k.warn(dir, "this is the trial authority of %s, but authority is %s in %s; set that name again, or create a new site with init",
			a.URN().Authority, c.Authority, c.Origin.Where("authority"))
	}
}

// providers checks the providers in a folder and their services, and that the providers of the
// inventory exist.
func (k *Checker) providers(ctx context.Context, dir string, inv *inventory.Inventory, inventoryFile string) {
	found, problems := provider.Load(dir, slog.New(slog.NewTextHandler(k.Err, nil)))
	for _, p := range problems {
		k.Errors(p)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c, err := site.OpenCompanion(ctx, dir, name)
		if c != nil && err == nil {
			k.compareSettings(c, inv, inventoryFile)
		}
		if c == nil || k.companion(ctx, c, inv, err) {
			k.provider(ctx, found[name])
		}
	}
	if inv != nil {
		missing, _ := site.MissingProviders(dir, found, inv, inventoryFile)
		for _, err := range missing {
			k.Errors(err)
		}
	}
}

// provider checks a provider with one get of a resource that does not exist, whose absence it must
// report.
func (k *Checker) provider(ctx context.Context, p *provider.Provider) {
	const remedy = "run it by hand, as PROVIDER.md says"
	name := "check-" + strings.ToLower(rand.Text())
	begun := time.Now()
	answer, err := p.Get(ctx, []string{name})
	took := time.Since(begun)
	if err != nil {
		k.bad(p.Path, "get fails: %s; %s; see above for its standard error", detail(err), remedy)
		return
	}
	r := answer[name]
	switch {
	case r.Err != nil && !p.Has(provider.AttrEnsure) && r.Err.Kind == provider.Unknown: // as it should be
	case r.Err != nil:
		k.bad(p.Path, "get of %s, which does not exist, fails: %s; it must answer that it is absent; %s", name, detail(r.Err), remedy)
		return
	case p.Has(provider.AttrEnsure) && r.Resource.Text(provider.AttrEnsure) != provider.Absent:
		k.bad(p.Path, "get of %s, which does not exist, says that it is %q, not absent; %s", name, r.Resource.Text(provider.AttrEnsure), remedy)
		return
	}
	k.good(p.Path, "provider %s of type %s, %s; get works", p.Name, p.Type, display.Count(len(p.Attributes), "attribute"))
	if took > slowGet {
		k.note(p.Path, "slow: get took %v; a change of a node calls it several times while users wait", took.Round(100*time.Millisecond))
	}
}

// detail adds the provider's details, which the text for experimenters omits.
func detail(err error) string {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

func (k *Checker) serverKeys(c *site.Config, host string) {
	t, err := mtls.New(c.TLS(slog.New(slog.DiscardHandler)))
	if err != nil {
		k.Errors(err)
		return
	}
	t.Close()
	for _, pair := range c.Keys {
		text, err := site.ReadRegular(pair.Certificate)
		if err != nil {
			k.Errors(err)
			continue
		}
		chain, err := cert.ParsePEM(text)
		if err != nil {
			k.warn(pair.Certificate, "%v; clients may refuse it, too", err)
			continue
		}
		x := chain[0]
		end := x.NotAfter.UTC().Format(time.DateOnly)
		switch left := time.Until(x.NotAfter); {
		case left < 0:
			k.bad(pair.Certificate, "it expired on %s; replace it, then: systemctl reload patchbay", end)
		case x.VerifyHostname(host) != nil:
			k.warn(pair.Certificate, "it is not valid for %s, so jFed will refuse it; it is valid for %s", host, strings.Join(x.DNSNames, ", "))
		case left < site.ExpiryWarning:
			k.warn(pair.Certificate, "it ends on %s; replace it, then: systemctl reload patchbay", end)
		default:
			k.good(pair.Certificate, "%s certificate for %s, until %s", x.PublicKeyAlgorithm, strings.Join(x.DNSNames, ", "), end)
		}
	}
}
