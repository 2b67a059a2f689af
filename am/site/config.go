package site

import (
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/site/clock"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Config is the configuration of one site, the file patchbay.yaml. Relative paths start at the
// folder of the file. Each key that is not a list has an environment variable:
// PATCHBAY_LEASES_PROVISIONED sets leases.provisioned. Durations are written 30s, 10m, 24h or
// 30d.
type Config struct {
	// Authority is the site's name in URNs. It must be unique in the federation; use the host's
	// full name. The URN of the aggregate is urn:publicid:IDN+AUTHORITY+authority+cm. Never
	// change it, because all URNs that clients know contain it.
	Authority string `yaml:"authority"`
	// Listen is the address and port for clients. :8443 is port 8443 on every address; port 0 is
	// any free port.
	Listen string `yaml:"listen"`
	// PublicURL is the URL of the site for clients, https://HOST:PORT. The default has the
	// host's full name and the port of Listen.
	PublicURL string `yaml:"public_url"`
	// Admin is the loopback address and port of /healthz, /readyz and /metrics; "off" for
	// none. The default is 127.0.0.1 and the port after the port of Listen.
	Admin string `yaml:"admin"`
	// Metrics is the listener of /metrics, /readyz and /healthz for monitors on other hosts.
	Metrics MetricsConfig `yaml:"metrics"`
	// Web is the listener of the pages for browsers.
	Web WebConfig `yaml:"web"`
	// Keys are the server's certificates and private keys, one pair for each kind of key. Old
	// clients need an RSA pair in addition to an ECDSA pair.
	Keys []KeyPair `yaml:"keys"`
	// TrialAuthority is the authority in the folder authority beside the configuration.
	TrialAuthority TrialAuthorityConfig `yaml:"trial_authority"`
	// Trusted is the folder of trust anchors, the files *.pem. In this folder, the files *.crl
	// list revoked certificates, and the file "denied" lists refused users and certificates.
	Trusted string `yaml:"trusted"`
	// Inventory is the file of the components that this site offers.
	Inventory string `yaml:"inventory"`
	// Providers is the folder of *.prov executables that make slivers.
	Providers string `yaml:"providers"`
	// State is the file with the site's slivers and reservations (its store).
	State string `yaml:"state"`
	// JournalKeep is how long the state keeps journal entries; 400d. 0s keeps all entries.
	JournalKeep time.Duration `yaml:"journal_keep"`
	// Maintenance is the file of lockdown, drained components and planned maintenance. Commands
	// write the file. It need not exist.
	Maintenance string `yaml:"maintenance"`
	// Policy is the file of rules that limit the resources of users. The file must exist if this
	// key is set.
	Policy string `yaml:"policy"`
	// Audit is the file with a line for each call that may change something, and for each address
	// that a sliver gets or loses. The file can be moved away at any time.
	Audit string `yaml:"audit"`
	// AuditRequired refuses calls that would change something while the audit
	// cannot be written.
	AuditRequired bool `yaml:"audit_required"`
	// Credentials limits the accepted credentials and certificates.
	Credentials CredentialsConfig `yaml:"credentials"`
	// Leases limits the leases of slivers.
	Leases LeasesConfig `yaml:"leases"`
	// ClockJump is the largest jump of the host's clock that is accepted; 1m. After a larger
	// jump, leases follow the monotonic clock until both clocks agree again, or until a reload.
	ClockJump time.Duration `yaml:"clock_jump"`
	// EmptyDescribe is the answer of Describe, and of ListResources of version 2, for a
	// slice without slivers: "empty", an empty manifest (jFed expects it), or the error
	// "not-found".
	EmptyDescribe string `yaml:"empty_describe"`
	// ServicesFailure is the effect of a failed install or execute on its sliver. With
	// "report" the sliver is ready and has a geni_error; with "fail" it is geni_failed.
	ServicesFailure string `yaml:"services_failure"`
	// Orphans is the treatment of orphans, the resources of a provider that belong to no sliver.
	// "keep" reports orphans in the log, in /metrics and in "patchbay nodes". While an orphan
	// exists, its component takes no new slivers. "remove" also removes at most 20 orphans an
	// hour. It removes only orphans whose release is in this site's journal. Remove other orphans
	// with "patchbay release --orphans": those of another site, and those that were created after
	// a backup that was restored.
	Orphans string `yaml:"orphans"`
	// OrphansAfter is the age at which an orphan may be removed; 10m.
	OrphansAfter time.Duration `yaml:"orphans_after"`
	// ASCIIManifests replaces non-ASCII characters in manifests by character references, because
	// old versions of omni fail on such characters.
	ASCIIManifests bool `yaml:"ascii_manifests"`
	// ManifestExtensions are the extensions of manifests: "sliver-info" adds the creation and
	// expiry of each sliver, and "vnode" its physical name in Emulab's format.
	ManifestExtensions []string `yaml:"manifest_extensions"`
	// AdExtensions are the extensions of advertisements: "nitos" adds the times in which nodes are taken to
	// the advertisement of a window, without names of slices.
	AdExtensions []string `yaml:"ad_extensions"`
	// Hooks receive events about slivers.
	Hooks []HookConfig `yaml:"hooks"`
	// Log is the format and level of the log on standard error.
	Log LogConfig `yaml:"log"`
	// Limits protect the server from its clients.
	Limits LimitsConfig `yaml:"limits"`
	// StopTimeout is the time in which running calls must end when the server stops.
	StopTimeout time.Duration `yaml:"stop_timeout"`

	// PollProviders is the interval at which providers are polled. A provider that has not
	// answered for three times this interval is silent. 0 means 15 seconds. Only tests set this
	// field, so it has no key.
	PollProviders time.Duration

	Origin   origin
	readOnly bool
}

// Values of ServicesFailure.
const (
	servicesReport = "report"
	servicesFail   = "fail"
)

// Values of Orphans.
const (
	orphansKeep   = "keep"
	orphansRemove = "remove"
)

// MetricsConfig is the listener of /metrics, /readyz and /healthz for monitors on other hosts. It
// uses TLS with the server's certificates. Monitors authenticate with a token or a client
// certificate. If TokenFile and ClientCA are both set, monitors need both.
type MetricsConfig struct {
	// Listen is the address and port; empty for none.
	Listen string `yaml:"listen"`
	// TokenFile is the file of the token. Monitors send "Authorization: Bearer TOKEN".
	TokenFile string `yaml:"token_file"`
	// ClientCA is a PEM file with the certificates of the authorities that sign the
	// certificates of monitors.
	ClientCA string `yaml:"client_ca"`
}

// WebConfig is the listener of the pages for experimenters, teachers and operators. Members sign in
// only at a site with a trial authority.
type WebConfig struct {
	// Listen is the address and port; "off" for none. The default has the host of the key listen, and
	// its port + 2. On a loopback address without a certificate the pages use http, for this host or
	// a proxy in front; otherwise they use TLS.
	Listen string `yaml:"listen"`
	// Certificate and Key are PEM files of a certificate that browsers accept. The default is the server's
	// own certificate, for which browsers show a warning.
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// PublicURL is the URL of the pages for browsers, with the scheme, host and port that they show. Requests for another host
	// are refused. The default has the host of the key public_url, and the port of Listen.
	PublicURL string `yaml:"public_url"`
}

// TrialAuthorityConfig says what the server does for the site's own users and slices.
type TrialAuthorityConfig struct {
	// Serve answers the calls of the trial authority's clients: service registry at /ch/2, slice
	// authority at /sa/2, member authority at /ma/2.
	Serve bool `yaml:"serve"`
	// Invite lets people with an invitation become members: patchbay authority invite prints
	// invitations, and patchbay login uses them.
	Invite bool `yaml:"invite"`
}

// KeyPair has the paths of a certificate and of its private key, both in PEM.
type KeyPair struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// CredentialsConfig limits the accepted credentials and certificates.
type CredentialsConfig struct {
	// SHA1Signatures accepts credentials signed with SHA-1, which many authorities still use;
	// true.
	SHA1Signatures bool `yaml:"sha1_signatures"`
	// SHA1Certificates accepts certificates signed with SHA-1.
	SHA1Certificates bool `yaml:"sha1_certificates"`
	// MinRSABits is the smallest RSA key; 2048, at least 1024.
	MinRSABits int `yaml:"min_rsa_bits"`
	// Signers are names of authorities (the last part of their URNs) that may sign
	// credentials, in addition to sa, ma, ca, ch and root.
	Signers []string `yaml:"signers"`
	// Speakers are the URNs of the tools and authorities that may speak for users. They still
	// need a credential signed by the user. If Speakers is empty, all trusted tools and
	// authorities may speak for users.
	Speakers []string `yaml:"speakers"`
	// CacheSize is the maximum number of verified credentials in the cache.
	CacheSize int `yaml:"cache_size"`
}

// LeasesConfig limits the leases of slivers. A lease never outlives the credential of the call
// that requested it.
type LeasesConfig struct {
	// Allocated is the lease of a reservation that is not provisioned; 10m.
	Allocated time.Duration `yaml:"allocated"`
	// AllocatedMax is the longest lease that Renew gives a reservation, counted from the
	// call; 2h.
	AllocatedMax time.Duration `yaml:"allocated_max"`
	// Provisioned is the first lease of a provisioned sliver; 24h.
	Provisioned time.Duration `yaml:"provisioned"`
	// ProvisionedMax is the longest lease that Provision and Renew give, counted from the
	// call; 30d.
	ProvisionedMax time.Duration `yaml:"provisioned_max"`
	// Margin is the minimum time between the end of the first lease and the end of the
	// credential, so that a small renewal is possible; 10m.
	Margin time.Duration `yaml:"margin"`
	// AheadMax is the longest time from a call to the start that it requests; 30d. 0 switches reservations ahead off.
	AheadMax time.Duration `yaml:"ahead_max"`
	// AheadStep is the step of the starts, counted from midnight UTC; 0: any second.
	AheadStep time.Duration `yaml:"ahead_step"`
	// NoShow is how long a reservation waits for Provision after its start; 30m.
	NoShow time.Duration `yaml:"no_show"`
	// AheadEntries is the maximum number of slivers of a project that have not begun; 2000.
	AheadEntries int `yaml:"ahead_entries"`
}

// LimitsConfig limits the calls of clients and the requests in them.
type LimitsConfig struct {
	server.Config
	// RSpec limits the content of a request; Allocate answers a larger one with 6 (TOOBIG).
	RSpec rspec.Limits `yaml:"rspec"`
}

// LogConfig is the format and level of the log.
type LogConfig struct {
	// Format is "text" or "json".
	Format string `yaml:"format"`
	// Level is the lowest level that is written: "debug", "info", "warn" or "error".
	Level string `yaml:"level"`
}

// DefaultConfig returns the configuration of a site whose file is empty.
func DefaultConfig() Config {
	l := service.DefaultLeases
	return Config{
		Listen:        ":8443",
		Trusted:       "trusted",
		Inventory:     "inventory.yaml",
		Providers:     "providers",
		State:         "state.db",
		JournalKeep:   400 * 24 * time.Hour,
		Maintenance:   "maintenance.yaml",
		Policy:        "policy.yaml",
		Audit:         "audit.log",
		Credentials:   CredentialsConfig{SHA1Signatures: true, MinRSABits: 2048, CacheSize: 4096},
		Leases:        LeasesConfig(l),
		ClockJump:     clock.DefaultJump,
		EmptyDescribe: "empty",

		ServicesFailure: servicesReport,
		Orphans:         orphansKeep,
		OrphansAfter:    10 * time.Minute,
		Log:             LogConfig{Format: "text", Level: "info"},
		StopTimeout:     30 * time.Second,
	}
}

func (c *Config) resolve(dir string) {
	paths := []*string{&c.Trusted, &c.Inventory, &c.Providers, &c.State, &c.Policy, &c.Maintenance, &c.Audit, &c.Metrics.TokenFile, &c.Metrics.ClientCA, &c.Web.Certificate, &c.Web.Key}
	for i := range c.Keys {
		paths = append(paths, &c.Keys[i].Certificate, &c.Keys[i].Key)
	}
	paths = append(paths, hookPaths(c.Hooks)...)
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// ReadOptions returns the options with which the site reads requests.
func (c *Config) ReadOptions(inv *inventory.Inventory) rspec.ReadOptions {
	o := rspec.ReadOptions{
		Managers: append([]urn.URN{inv.Manager}, inv.Managers...), LinkTypes: inv.RequestLinkTypes(),
		CopyCrossLinks: inv.CrossLinks == inventory.Copy, Limits: c.Limits.RSpec, CheckSchemas: true,
	}
	if inv.LossUnit == inventory.AsFraction {
		o.PacketLoss = rspec.Fraction
	}
	return o
}

// Components returns a function that looks up a component by its URN in the inventory that inv
// returns. The function returns the component's name and provider.
func Components(inv func() *inventory.Inventory) func(urn.URN) (component, provider string, ok bool) {
	return func(u urn.URN) (string, string, bool) {
		c, ok := inv().Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
}

// Interfaces returns a function that returns the name of the interface with a URN; "" if the
// inventory that inv returns has no such interface.
func Interfaces(inv func() *inventory.Inventory) func(urn.URN) string {
	return func(u urn.URN) string {
		if i, ok := inv().Interface(u); ok {
			return i.Name
		}
		return ""
	}
}

// New returns the configured log. In JSON, durations are seconds in a key NAME_seconds.
// Attributes with an empty text are omitted.
func (l LogConfig) New(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo
	}
	isJSON := l.Format == "json"
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch {
		case a.Value.Kind() == slog.KindString && a.Value.String() == "":
			return slog.Attr{}
		case isJSON && a.Value.Kind() == slog.KindDuration:
			return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
		}
		return a
	}}
	if isJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
