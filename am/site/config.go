package site

import (
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"patchbay/am/clock"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Config is patchbay.yaml: one site. Paths that are not absolute are relative
// to the folder of the file. Every key can also be given by the environment:
// leases.provisioned is PATCHBAY_LEASES_PROVISIONED. Times are written 30s,
// 10m, 24h or 30d.
type Config struct {
	// Authority is the site's name in URNs, a name that no other site of the
	// federation has; the host's full name is a good one. The aggregate is then
	// urn:publicid:IDN+AUTHORITY+authority+cm. Never change it: every URN that
	// was handed out names it.
	Authority string `yaml:"authority"`
	// Listen is the address and port for clients; :8443 for port 8443 on every
	// address. Port 0 takes any free one.
	Listen string `yaml:"listen"`
	// PublicURL is the URL of the site for clients, https://HOST:PORT. The default has the
	// host's full name and the port of Listen.
	PublicURL string `yaml:"public_url"`
	// Admin is the loopback address and port of /healthz, /readyz and /metrics; "off" for
	// none. The default is 127.0.0.1 and the port after the port of Listen.
	Admin string `yaml:"admin"`
	// Metrics is the listener of /metrics, /readyz and /healthz for monitors on other hosts.
	Metrics MetricsConfig `yaml:"metrics"`
	// Keys are the server's certificates and private keys, one pair for each
	// kind of key. An RSA pair beside an ECDSA one serves old clients.
	Keys []KeyPair `yaml:"keys"`
	// Trusted is the folder of trust anchors, the files *.pem. The files *.crl and denied
	// list revoked certificates and refused users.
	Trusted string `yaml:"trusted"`
	// Inventory is the file of the components that this site offers.
	Inventory string `yaml:"inventory"`
	// Providers is the folder of *.prov executables that make slivers.
	Providers string `yaml:"providers"`
	// State is the file with the site's slivers and reservations (its store).
	State string `yaml:"state"`
	// JournalKeep is how long the state keeps journal entries; 400d. Entries that the
	// audit does not have yet stay, and 0s keeps all. The audit is not changed.
	JournalKeep time.Duration `yaml:"journal_keep"`
	// Maintenance is the file of lockdown, drained components and planned maintenance.
	// Commands write it; it need not exist.
	Maintenance string `yaml:"maintenance"`
	// Policy is the file of rules that limit the resources of users. It need not exist
	// unless this key is set.
	Policy string `yaml:"policy"`
	// Audit is the file that keeps a line for each call that may change something,
	// and for each address that a sliver gets or loses. It can be moved away at any
	// time.
	Audit string `yaml:"audit"`
	// AuditRequired refuses calls that would change something while the audit
	// cannot be written.
	AuditRequired bool `yaml:"audit_required"`
	// Credentials says which credentials with old algorithms are accepted.
	Credentials CredentialsConfig `yaml:"credentials"`
	// Leases limit how long slivers live.
	Leases LeasesConfig `yaml:"leases"`
	// ClockJump is how far the host's clock may jump; 1m. After a larger jump it is not
	// trusted until an operator confirms it (patchbay clock): leases follow the monotonic
	// clock until then.
	ClockJump time.Duration `yaml:"clock_jump"`
	// EmptyDescribe is the answer of Describe, and of ListResources of version 2, for a
	// slice without slivers: "empty", an empty manifest (jFed expects it), or the error
	// "not-found".
	EmptyDescribe string `yaml:"empty_describe"`
	// ServicesFailure is the effect of a failed install or execute on its sliver. With
	// "report" the sliver is ready and has a geni_error; with "fail" it is geni_failed.
	ServicesFailure string `yaml:"services_failure"`
	// Orphans says what happens to orphans: resources of a provider that belong to no
	// sliver. "keep" reports them in the log, in /metrics and in "patchbay nodes", and
	// their component takes no new slivers while they exist. "remove" also removes an
	// orphan if this site's journal records that it was released here, at most 20 an
	// hour. The journal has no record of the resources of another site, and none of resources
	// made after the backup that was restored: remove these with "patchbay release --orphans".
	Orphans string `yaml:"orphans"`
	// OrphansAfter is how long an orphan must have existed before it is removed; 10m.
	OrphansAfter time.Duration `yaml:"orphans_after"`
	// ASCIIManifests writes characters beyond ASCII as references; old omni
	// fails on them.
	ASCIIManifests bool `yaml:"ascii_manifests"`
	// ManifestExtensions are the extensions of manifests: "sliver-info" adds the creation and
	// expiry of each sliver, and "vnode" its physical name in Emulab's format.
	ManifestExtensions []string `yaml:"manifest_extensions"`
	// Hooks receive events about slivers.
	Hooks []HookConfig `yaml:"hooks"`
	// Log is the format and level of the log on standard error.
	Log LogConfig `yaml:"log"`
	// Limits protect the server from its clients.
	Limits LimitsConfig `yaml:"limits"`
	// StopTimeout is how long running calls may continue when the server stops.
	StopTimeout time.Duration `yaml:"stop_timeout"`

	// PollProviders is the interval at which providers are polled. A provider that has not
	// answered for three times this interval is silent. 0 means 15 seconds; only tests set
	// it, so it has no key.
	PollProviders time.Duration

	Origin origin
	// readOnly opens the store read-only.
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

// MetricsConfig is the listener of /metrics, /readyz and /healthz for monitors on other
// hosts, over TLS with the server's certificates. Monitors authenticate with a token or a
// client certificate; if TokenFile and ClientCA are both set, they need both.
type MetricsConfig struct {
	// Listen is the address and port; empty for none.
	Listen string `yaml:"listen"`
	// TokenFile is the file of the token. Monitors send "Authorization: Bearer TOKEN".
	TokenFile string `yaml:"token_file"`
	// ClientCA is a PEM file with the certificates of the authorities that sign the
	// certificates of monitors.
	ClientCA string `yaml:"client_ca"`
}

// KeyPair names a certificate and its private key, both PEM.
type KeyPair struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// CredentialsConfig limits the accepted credentials and certificates.
type CredentialsConfig struct {
	// SHA1Signatures accepts credentials signed with SHA-1, as many authorities
	// still sign; true.
	SHA1Signatures bool `yaml:"sha1_signatures"`
	// SHA1Certificates accepts certificates signed with SHA-1.
	SHA1Certificates bool `yaml:"sha1_certificates"`
	// MinRSABits is the smallest RSA key; 2048, at least 1024.
	MinRSABits int `yaml:"min_rsa_bits"`
	// Signers are names of authorities (the last part of their URNs) that may sign
	// credentials, in addition to sa, ma, ca, ch and root.
	Signers []string `yaml:"signers"`
	// Speakers are the URNs of the tools and authorities that may speak for users with a
	// credential signed by the user; if there are none, all trusted tools and authorities may.
	Speakers []string `yaml:"speakers"`
	// CacheSize is how many verified credentials are cached.
	CacheSize int `yaml:"cache_size"`
}

// LeasesConfig limits how long slivers live. A lease never outlives the credential of
// the call that requested it.
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
	// Margin is the time between the end of the first lease and the end of the credential,
	// so that a small renewal still works; 10m.
	Margin time.Duration `yaml:"margin"`
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
		Leases:        LeasesConfig{l.Allocated, l.AllocatedMax, l.Provisioned, l.ProvisionedMax, l.Margin},
		ClockJump:     clock.DefaultJump,
		EmptyDescribe: "empty",

		ServicesFailure: servicesReport,
		Orphans:         orphansKeep,
		OrphansAfter:    10 * time.Minute,
		Log:             LogConfig{Format: "text", Level: "info"},
		StopTimeout:     30 * time.Second,
	}
}

// resolve makes all paths absolute, relative to dir.
func (c *Config) resolve(dir string) {
	paths := []*string{&c.Trusted, &c.Inventory, &c.Providers, &c.State, &c.Policy, &c.Maintenance, &c.Audit, &c.Metrics.TokenFile, &c.Metrics.ClientCA}
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
		Managers: append([]urn.URN{inv.Manager}, inv.Managers...), LinkTypes: inv.LinkTypes,
		CopyCrossLinks: inv.CrossLinks == inventory.Copy, Limits: c.Limits.RSpec, CheckSchemas: true,
	}
	if inv.LossUnit == inventory.AsFraction {
		o.PacketLoss = rspec.Fraction
	}
	return o
}

// Components returns a function that finds a component's name and provider by its URN in the
// inventory that inv returns.
func Components(inv func() *inventory.Inventory) func(urn.URN) (component, provider string, ok bool) {
	return func(u urn.URN) (string, string, bool) {
		c, ok := inv().Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
}

// Interfaces returns a function that finds an interface's name by its URN in the inventory
// that inv returns.
func Interfaces(inv func() *inventory.Inventory) func(urn.URN) string {
	return func(u urn.URN) string {
		if i, ok := inv().Interface(u); ok {
			return i.Name
		}
		return ""
	}
}

// New returns the configured log. In JSON, durations are seconds in a key NAME_seconds.
// Empty strings are left out.
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
