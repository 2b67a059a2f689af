package site

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/clock"
	"patchbay/am/display"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/credentials"
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
	// PublicURL is https://HOST:PORT as clients reach it. Without it, it is the
	// host's full name and the port of Listen.
	PublicURL string `yaml:"public_url"`
	// Admin is the loopback address and port of /healthz, /readyz and /metrics;
	// "off" for none. Without it, it is the port after that of Listen.
	Admin string `yaml:"admin"`
	// Metrics is where /metrics, /readyz and /healthz are for monitors on other hosts.
	Metrics MetricsConfig `yaml:"metrics"`
	// Keys are the server's certificates and private keys, one pair for each
	// kind of key. An RSA pair beside an ECDSA one serves old clients.
	Keys []KeyPair `yaml:"keys"`
	// Trusted is the folder of trust anchors: every *.pem in it, with *.crl and
	// denied for what is revoked.
	Trusted string `yaml:"trusted"`
	// Inventory is the file that says what this site offers.
	Inventory string `yaml:"inventory"`
	// Providers is the folder of *.prov executables that make slivers.
	Providers string `yaml:"providers"`
	// State is the file in which the site keeps what it has promised.
	State string `yaml:"state"`
	// JournalKeep is for how long the state remembers what was done; 400d. What the
	// audit does not tell yet stays, and 0s keeps all. The audit is not touched.
	JournalKeep time.Duration `yaml:"journal_keep"`
	// Maintenance is the file that says what is out of service: a lockdown, and
	// planned maintenance. Commands write it; it need not be there.
	Maintenance string `yaml:"maintenance"`
	// Policy is the file of rules by which users may have less than everything. By
	// default it need not be there.
	Policy string `yaml:"policy"`
	// Audit is the file that keeps a line for each call that may change something,
	// and for each address that a sliver gets or loses. It can be moved away at any
	// time.
	Audit string `yaml:"audit"`
	// AuditRequired refuses calls that would change something while the audit
	// cannot be written.
	AuditRequired bool `yaml:"audit_required"`
	// Credentials says which old-fashioned credentials are still good.
	Credentials CredentialsConfig `yaml:"credentials"`
	// Leases limit how long slivers live.
	Leases LeasesConfig `yaml:"leases"`
	// ClockJump is how far the host's clock may be moved at once. What jumps further
	// is not believed until an operator says so (patchbay clock): leases go on by
	// the time that has gone by; 1m.
	ClockJump time.Duration `yaml:"clock_jump"`
	// EmptyDescribe is what Describe, and ListResources of version 2, answers for a
	// slice without slivers: "empty", an empty manifest (jFed expects it), or
	// "not-found".
	EmptyDescribe string `yaml:"empty_describe"`
	// ServicesFailure is what becomes of a sliver of which an install or execute
	// failed: "report", it is ready and its geni_error tells, or "fail", it is
	// geni_failed.
	ServicesFailure string `yaml:"services_failure"`
	// Orphans says what happens to orphans: resources of a provider that belong to no
	// sliver. "keep" reports them in the log, in /metrics and in "patchbay nodes", and
	// their component takes no new slivers while they exist. "remove" also removes an
	// orphan if this site's journal records that it was released here, at most 20 an
	// hour. Resources of another site, or made after the backup that was restored here,
	// are in no journal of this site: remove them with "patchbay release --orphans".
	Orphans string `yaml:"orphans"`
	// OrphansAfter is how long an orphan must have existed before it is removed; 10m.
	OrphansAfter time.Duration `yaml:"orphans_after"`
	// ASCIIManifests writes characters beyond ASCII as references; old omni
	// fails on them.
	ASCIIManifests bool `yaml:"ascii_manifests"`
	// ManifestExtensions are what manifests tell beside the core: "sliver-info",
	// the life of each sliver, and "vnode", its physical identity as Emulab tells it.
	ManifestExtensions []string `yaml:"manifest_extensions"`
	// Hooks are told what happens to slivers.
	Hooks []HookConfig `yaml:"hooks"`
	// Log says how the log on standard error looks.
	Log LogConfig `yaml:"log"`
	// Limits protect the server from its clients.
	Limits LimitsConfig `yaml:"limits"`
	// StopTimeout is how long calls may go on when the server is told to stop.
	StopTimeout time.Duration `yaml:"stop_timeout"`

	// PollProviders is how often providers are polled. A provider is silent after three
	// times as long. 0 is 15 seconds; only tests set it, so it has no key.
	PollProviders time.Duration

	Origin origin
	// readOnly opens the store to look at it only.
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

// MetricsConfig says where monitors on other hosts find /metrics, /readyz and /healthz,
// over TLS with the server's certificates, and how they prove who they are. With both
// TokenFile and ClientCA they need both.
type MetricsConfig struct {
	// Listen is the address and port; empty for none.
	Listen string `yaml:"listen"`
	// TokenFile is a file whose content they send as "Authorization: Bearer TOKEN".
	TokenFile string `yaml:"token_file"`
	// ClientCA is a PEM file with the certificates of the authorities that sign theirs.
	ClientCA string `yaml:"client_ca"`
}

// KeyPair names a certificate and its private key, both PEM.
type KeyPair struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// CredentialsConfig is what an operator may allow beyond what is sound today.
type CredentialsConfig struct {
	// SHA1Signatures accepts credentials signed with SHA-1, as many authorities
	// still sign; true.
	SHA1Signatures bool `yaml:"sha1_signatures"`
	// SHA1Certificates accepts certificates signed with SHA-1.
	SHA1Certificates bool `yaml:"sha1_certificates"`
	// MinRSABits is the smallest RSA key; 2048, at least 1024.
	MinRSABits int `yaml:"min_rsa_bits"`
	// Signers are further names of authorities that may sign credentials, the
	// last part of their URNs; sa, ma, ca, ch and root always may.
	Signers []string `yaml:"signers"`
	// Speakers are the URNs of those who may speak for users by a credential
	// signed by the user; where none is listed, all trusted tools and authorities.
	Speakers []string `yaml:"speakers"`
	// CacheSize is how many verified credentials are remembered.
	CacheSize int `yaml:"cache_size"`
}

// LeasesConfig limits how long slivers live. A lease never outlives the
// credential that asked for it.
type LeasesConfig struct {
	// Allocated is how long a reservation lasts that is not provisioned; 10m.
	Allocated time.Duration `yaml:"allocated"`
	// AllocatedMax is how far Renew may prolong a reservation; 2h.
	AllocatedMax time.Duration `yaml:"allocated_max"`
	// Provisioned is the first lease of a provisioned sliver; 24h.
	Provisioned time.Duration `yaml:"provisioned"`
	// ProvisionedMax is the longest lease from now; 30d.
	ProvisionedMax time.Duration `yaml:"provisioned_max"`
	// Margin is how far before its credential the first lease ends, so that a
	// small renewal still works; 10m.
	Margin time.Duration `yaml:"margin"`
}

// LimitsConfig is how much clients may ask for: calls, and requests in them.
type LimitsConfig struct {
	server.Config
	// RSpec bounds what a request may hold; beyond it Allocate answers 6.
	RSpec rspec.Limits `yaml:"rspec"`
}

// LogConfig says how the log looks.
type LogConfig struct {
	// Format is "text" or "json".
	Format string `yaml:"format"`
	// Level is the least that is written: "debug", "info", "warn" or "error".
	Level string `yaml:"level"`
}

// DefaultConfig is a site about which nothing is said.
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

// resolve makes all paths absolute, from the folder dir.
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

// wrongFunc notes what is wrong with the value of a key.
type wrongFunc func(key, format string, args ...any)

// Validate looks at every value by itself; files are not opened. The error
// joins a *ConfigError for each mistake.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, c.Origin.wrong(key, format, args...))
	}
	c.validateAddresses(wrong)
	c.validateMetrics(wrong)
	c.validateFiles(wrong)
	c.validateCredentials(wrong)
	c.Leases.validate(wrong)
	c.validateTimes(wrong)
	errs = append(errs, checkHooks(c.Origin, c.Hooks)...)
	c.validateChoices(wrong)
	c.Limits.validate(wrong)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// validateAddresses checks the names and addresses of the site.
func (c *Config) validateAddresses(wrong wrongFunc) {
	switch {
	case c.Authority == "":
		wrong("authority", "the site has no name; set authority to one like testbed.example.org")
	case !urn.ValidAuthority(c.Authority):
		wrong("authority", "%q cannot stand in a URN: letters, digits, dots, hyphens and underscores, with colons between sub-authorities", c.Authority)
	case IsLoopbackName(c.Authority):
		wrong("authority", "%q means another site on every host; use a name of your own like testbed.example.org", c.Authority)
	}
	if err := CheckAddress(c.Listen); err != nil {
		wrong("listen", "%v", err)
	}
	if c.PublicURL != "" {
		if err := CheckPublicURL(c.PublicURL); err != nil {
			wrong("public_url", "%v", err)
		}
	}
	if c.Admin != "" && c.Admin != "off" {
		host, _, _ := net.SplitHostPort(c.Admin)
		if err := CheckAddress(c.Admin); err != nil {
			wrong("admin", "%v; write 127.0.0.1:8444, or off", err)
		} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			wrong("admin", "%q is not a loopback address: anybody could read it; write 127.0.0.1:8444, or off; for monitors on other hosts there is the key metrics", c.Admin)
		}
	}
}

// validateMetrics checks that other hosts cannot read metrics without a token or a
// certificate.
func (c *Config) validateMetrics(wrong wrongFunc) {
	m := c.Metrics
	switch {
	case m == (MetricsConfig{}):
		return
	case m.Listen == "":
		wrong("metrics.listen", "it is missing; write an address and port like :9464")
	case m.TokenFile == "" && m.ClientCA == "":
		wrong("metrics", "anybody could read them; name a token_file, or a client_ca")
	}
	if m.Listen != "" {
		if err := CheckAddress(m.Listen); err != nil {
			wrong("metrics.listen", "%v", err)
		}
	}
}

// validateFiles checks that all files have names.
func (c *Config) validateFiles(wrong wrongFunc) {
	if len(c.Keys) == 0 {
		wrong("keys", "the server has no certificate; name a pair of files: keys: [{certificate: server.pem, key: server-key.pem}]")
	}
	for i, k := range c.Keys {
		if k.Certificate == "" || k.Key == "" {
			wrong("keys", "pair %d needs both certificate and key", i+1)
		}
	}
	for key, value := range map[string]string{"trusted": c.Trusted, "inventory": c.Inventory, "providers": c.Providers, "state": c.State, "policy": c.Policy, "maintenance": c.Maintenance} {
		if value == "" {
			wrong(key, "it must not be empty")
		}
	}
	if base := filepath.Base(c.Audit); c.Audit == "" || base == "off" {
		wrong("audit", "the audit cannot be switched off, for it answers whose an address was; name a file like audit.log")
	}
}

func (c *Config) validateCredentials(wrong wrongFunc) {
	if n := c.Credentials.MinRSABits; n < 1024 {
		wrong("credentials.min_rsa_bits", "%d is less than 1024, which anybody can break", n)
	}
	if err := (credentials.Config{Speakers: c.Credentials.Speakers}).Validate(); err != nil {
		wrong("credentials.speakers", "%v", err)
	}
	if c.Credentials.CacheSize < 0 {
		wrong("credentials.cache_size", "it must not be negative")
	}
}

func (c *Config) validateTimes(wrong wrongFunc) {
	if c.ClockJump < time.Second {
		wrong("clock_jump", "%s is less than a second, by which clocks are put right all the time; write a time like 1m", display.Duration(c.ClockJump))
	}
	if c.OrphansAfter <= 0 {
		wrong("orphans_after", "it must be a time like 10m")
	}
	if c.JournalKeep != 0 && c.JournalKeep < 24*time.Hour {
		wrong("journal_keep", "it must be a day or more, or 0s to keep all")
	}
	if c.StopTimeout < 0 {
		wrong("stop_timeout", "it must not be negative")
	}
}

// validateChoices checks the keys that take one of a few words.
func (c *Config) validateChoices(wrong wrongFunc) {
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			wrong(key, "%q is none of %s", value, strings.Join(allowed, ", "))
		}
	}
	oneOf("empty_describe", c.EmptyDescribe, "empty", "not-found")
	oneOf("services_failure", c.ServicesFailure, servicesReport, servicesFail)
	oneOf("orphans", c.Orphans, orphansKeep, orphansRemove)
	for _, e := range c.ManifestExtensions {
		oneOf("manifest_extensions", e, service.SliverInfo, service.VNode)
	}
	oneOf("log.format", c.Log.Format, "text", "json")
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
}

func (l LimitsConfig) validate(wrong wrongFunc) {
	for key, n := range map[string]int64{
		"max_body": l.MaxBody, "max_calls_per_caller": int64(l.MaxCallsPerCaller), "max_connections": int64(l.MaxConnections),
		"max_changes_burst": int64(l.MaxChangesBurst), "max_changes_per_minute": int64(l.MaxChangesPerMinute),
		"header_timeout": int64(l.HeaderTimeout), "stall_timeout": int64(l.StallTimeout), "read_timeout": int64(l.ReadTimeout), "idle_timeout": int64(l.IdleTimeout),
	} {
		if n < 0 {
			wrong("limits."+key, "it must not be negative")
		}
	}
	l.RSpec.Validate(wrong)
}

func (l LeasesConfig) validate(wrong wrongFunc) {
	for key, d := range map[string]time.Duration{
		"allocated": l.Allocated, "allocated_max": l.AllocatedMax,
		"provisioned": l.Provisioned, "provisioned_max": l.ProvisionedMax,
	} {
		if d <= 0 {
			wrong("leases."+key, "it must be a time like 24h")
		}
	}
	if l.Margin < 0 {
		wrong("leases.margin", "it must not be negative")
	}
	if l.Allocated > l.AllocatedMax {
		wrong("leases.allocated", "%s is longer than allocated_max, %s; lower the one or raise the other", display.Duration(l.Allocated), display.Duration(l.AllocatedMax))
	}
	if l.Provisioned > l.ProvisionedMax {
		wrong("leases.provisioned", "%s is longer than provisioned_max, %s; lower the one or raise the other", display.Duration(l.Provisioned), display.Duration(l.ProvisionedMax))
	}
}

// checkFiles makes sure that what the configuration names is there. The error
// joins a *configError, with the line of the key, for each that is not.
func (c *Config) checkFiles() error {
	return errors.Join(c.CheckKeyFiles(), c.CheckFile("inventory", c.Inventory), c.CheckFolder("trusted", c.Trusted),
		c.CheckFolder("providers", c.Providers), c.CheckState(), c.CheckAudit(), c.CheckMetrics())
}

func (c *Config) CheckKeyFiles() error {
	var errs []error
	for i, pair := range c.Keys {
		where := c.Origin.Where(fmt.Sprintf("keys.%d", i))
		for _, f := range [][2]string{{"certificate", pair.Certificate}, {"key", pair.Key}} {
			if _, err := os.Stat(f[1]); err != nil {
				errs = append(errs, &ConfigError{where, "keys", notThere(f[0], f[1], err)})
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Config) CheckFile(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.wrong(key, "%s", notThere("file", path, err))
	case info.IsDir():
		return c.Origin.wrong(key, "%s is a folder; name a file", path)
	}
	return nil
}

func (c *Config) CheckFolder(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c.Origin.wrong(key, "%s", notThere("folder", path, err))
	case !info.IsDir():
		return c.Origin.wrong(key, "%s is no folder; name the folder", path)
	}
	return nil
}

// CheckState makes sure that the store can be made, or changed where it is. Files are
// made beside it.
func (c *Config) CheckState() error { return c.checkWritten("state", c.State, true) }

// CheckAudit makes sure that the audit can be made, or written on.
func (c *Config) CheckAudit() error { return c.checkWritten("audit", c.Audit, false) }

// checkWritten makes sure that a file can be made, or read and written; always says that
// its folder must be writable though the file is there.
func (c *Config) checkWritten(key, path string, always bool) error {
	dir := filepath.Dir(path)
	if err := c.CheckFolder(key, dir); err != nil {
		return err
	}
	info, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew || always {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return c.Origin.wrong(key, "%s; or name a file elsewhere", notWritable(dir, err))
		}
	}
	switch {
	case isNew:
		return nil
	case err != nil:
		return c.Origin.wrong(key, "%v", err)
	case !info.Mode().IsRegular():
		return c.Origin.wrong(key, "%s is not a regular file; name one that is, or will be", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return c.Origin.wrong(key, "%s", notWritable(path, err))
	}
	return nil
}

// notWritable returns the message for a file or folder that this process cannot write.
func notWritable(path string, err error) string {
	if !errors.Is(err, unix.EACCES) {
		return fmt.Sprintf("%s is not writable (%v)", path, err)
	}
	name := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s is not writable by user %s: %s", path, name, display.AsRoot("chown", name, path))
}

func notThere(what, path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the %s %s does not exist; make it, or correct the name", what, path)
	}
	return fmt.Sprintf("the %s cannot be looked at: %v", what, err)
}

// Reading is how requests are read at a site.
func (c *Config) Reading(inv *inventory.Inventory) rspec.ReadOptions {
	o := rspec.ReadOptions{
		Managers: append([]urn.URN{inv.Manager}, inv.Managers...), LinkTypes: inv.LinkTypes,
		CopyCrossLinks: inv.CrossLinks == inventory.Copy, Limits: c.Limits.RSpec, CheckSchemas: true,
	}
	if inv.LossUnit == inventory.AsFraction {
		o.PacketLoss = rspec.Fraction
	}
	return o
}

func Components(inv func() *inventory.Inventory) func(urn.URN) (component, provider string, ok bool) {
	return func(u urn.URN) (string, string, bool) {
		c, ok := inv().Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
}

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
