package site

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/credentials"
)

type wrongFunc func(key, format string, args ...any)

// Validate checks all values without opening files. Its error joins a *ConfigError for
// each mistake.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, c.Origin.errorf(key, format, args...))
	}
	c.validateAddresses(wrong)
	c.validateMetrics(wrong)
	c.Web.validate(wrong)
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

func (c *Config) validateAddresses(wrong wrongFunc) {
	switch {
	case c.Authority == "":
		wrong("authority", "the site has no name; set authority to one like testbed.example.org")
	case !urn.ValidAuthority(c.Authority):
		wrong("authority", "%q cannot be part of a URN; use letters, digits, dots, hyphens and underscores, with colons between sub-authorities", c.Authority)
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
			wrong("admin", "%q is not a loopback address, so other hosts could read the metrics; write 127.0.0.1:8444, or off; for monitors on other hosts use the key metrics", c.Admin)
		}
	}
}

// validateMetrics must require a token or a certificate, since other hosts can connect.
func (c *Config) validateMetrics(wrong wrongFunc) {
	m := c.Metrics
	switch {
	case m == (MetricsConfig{}):
		return
	case m.Listen == "":
		wrong("metrics.listen", "it is missing; write an address and port like :9464")
	case m.TokenFile == "" && m.ClientCA == "":
		wrong("metrics", "every host could read the metrics; set token_file or client_ca")
	}
	if m.Listen != "" {
		if err := CheckAddress(m.Listen); err != nil {
			wrong("metrics.listen", "%v", err)
		}
	}
}

func (c WebConfig) validate(wrong wrongFunc) {
	if c.Listen != "" && c.Listen != webOff {
		if err := CheckAddress(c.Listen); err != nil {
			wrong("web.listen", "%v; write an address like :8445, or off", err)
		}
	}
	if (c.Certificate == "") != (c.Key == "") {
		wrong("web", "certificate and key belong together; set both, or none for the server's own certificate")
	}
	if c.PublicURL == "" {
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		wrong("web.public_url", "%q is not https://HOST or https://HOST:PORT, without a path", c.PublicURL)
	} else if u.Scheme == "http" && !IsLoopbackName(u.Hostname()) {
		wrong("web.public_url", "%q would send sign-in links without encryption; write https, or a loopback address for this host", c.PublicURL)
	}
}

// validateFiles checks only that the paths are set. It does not open the files.
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
		wrong("audit", "the audit cannot be switched off, because it records which user had an address; name a file like audit.log")
	}
}

func (c *Config) validateCredentials(wrong wrongFunc) {
	if n := c.Credentials.MinRSABits; n < 1024 {
		wrong("credentials.min_rsa_bits", "%d is less than 1024, and such keys can be broken; write 2048 or more", n)
	}
	if err := (credentials.Config{Speakers: c.Credentials.Speakers}).Validate(); err != nil {
		wrong("credentials.speakers", "%v", err)
	}
	if c.Credentials.CacheSize < 0 {
		wrong("credentials.cache_size", "it must not be negative")
	}
}

// validateTimes checks the durations outside of leases and limits.
func (c *Config) validateTimes(wrong wrongFunc) {
	if c.ClockJump < time.Second {
		wrong("clock_jump", "%s is less than a second, and normal clock corrections are larger; write a time like 1m", display.Duration(c.ClockJump))
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

// validateChoices checks the keys that allow only a few words.
func (c *Config) validateChoices(wrong wrongFunc) {
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			wrong(key, "%q is not one of %s", value, strings.Join(allowed, ", "))
		}
	}
	oneOf("empty_describe", c.EmptyDescribe, "empty", "not-found")
	oneOf("services_failure", c.ServicesFailure, servicesReport, servicesFail)
	oneOf("orphans", c.Orphans, orphansKeep, orphansRemove)
	for _, e := range c.ManifestExtensions {
		oneOf("manifest_extensions", e, service.SliverInfo, service.VNode)
	}
	for _, e := range c.AdExtensions {
		oneOf("ad_extensions", e, service.NITOS)
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
	for key, d := range map[string]time.Duration{"ahead_max": l.AheadMax, "ahead_step": l.AheadStep} {
		if d < 0 {
			wrong("leases."+key, "it must not be negative")
		}
	}
	if l.NoShow <= 0 {
		wrong("leases.no_show", "it must be a time like 30m")
	}
	if l.AheadEntries < 0 {
		wrong("leases.ahead_entries", "it must not be negative")
	}
	if l.Allocated > l.AllocatedMax {
		wrong("leases.allocated", "%s is longer than allocated_max, %s; lower allocated or raise allocated_max", display.Duration(l.Allocated), display.Duration(l.AllocatedMax))
	}
	if l.Provisioned > l.ProvisionedMax {
		wrong("leases.provisioned", "%s is longer than provisioned_max, %s; lower provisioned or raise provisioned_max", display.Duration(l.Provisioned), display.Duration(l.ProvisionedMax))
	}
}
