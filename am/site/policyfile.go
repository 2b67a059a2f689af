package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"patchbay/am/service/policy"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// policyRetry is the interval at which a policy with errors is read again. The error may be in a
// list that only the new policy names. Changes of such a list are not noticed.
const policyRetry = time.Second

// policyFile applies the policy and its lists to a served site, at the start and after each
// change of the files.
type policyFile struct {
	file   string
	policy *policy.Policy
	log    *slog.Logger

	mu        sync.Mutex // guards the fields below; held during a whole read
	site      policy.Site
	seen      string
	tried     time.Time // of the last read
	lastError string    // of the last read; "" for none
}

// PolicySite returns the names that rules may use at a site with the inventory inv.
func PolicySite(inv *inventory.Inventory) policy.Site {
	s := policy.Site{Components: make([]string, len(inv.Components)), SliverTypes: make([]string, len(inv.SliverTypes))}
	for i, c := range inv.Components {
		s.Components[i] = c.Name
	}
	for i, t := range inv.SliverTypes {
		s.SliverTypes[i] = t.Name
		if t.Needs.Cores > 0 {
			s.Cores = append(s.Cores, t.Name)
		}
		if t.Needs.Disk > 0 {
			s.Disk = append(s.Disk, t.Name)
		}
	}
	return s
}

// LoadPolicy reads the policy of a site. It returns nil if the file does not exist and
// the key policy is not set. A dangling link is an error.
func (c *Config) LoadPolicy(inv *inventory.Inventory) (*policy.Rules, error) {
	if _, err := os.Lstat(c.Policy); errors.Is(err, fs.ErrNotExist) {
		if c.Origin.has("policy") {
			return nil, c.Origin.errorf("policy", "%s", missingMessage("file", c.Policy, err))
		}
		return nil, nil
	}
	return policy.Load(c.Policy, PolicySite(inv))
}

// apply replaces the rules by the result of load. It repeats load, at most four times, if the
// files changed meanwhile or the new rules name other files.
func (p *policyFile) apply(load func() (*policy.Rules, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rules *policy.Rules
	for range 5 {
		before := p.state()
		p.seen, p.tried, p.lastError = before, time.Now(), ""
		var err error
		if rules, err = load(); err != nil {
			p.lastError = err.Error()
			return err
		}
		p.policy.SetRules(rules)
		if p.state() == before {
			break
		}
	}
	p.logRules(rules)
	return nil
}

// state identifies the versions of the policy's files.
func (p *policyFile) state() string {
	var b strings.Builder
	files := p.policy.Rules().Files()
	if len(files) == 0 {
		files = []string{p.file}
	}
	for _, file := range files {
		fmt.Fprintln(&b, stampOf(file))
	}
	return b.String()
}

// read loads the files and replaces the rules. After an error the old rules stay. read logs the
// error unless its text equals the parameter logged, the error that was logged before.
func (p *policyFile) read(logged string) {
	err := p.apply(func() (*policy.Rules, error) { return p.load(p.site) })
	if err != nil && err.Error() != logged {
		p.log.Error("the policy cannot be read; the previous rules still apply; see: patchbay check", "error", err)
	}
}

// load reads the rules for a site. It returns nil if the file does not exist and there were no
// rules before.
func (p *policyFile) load(site policy.Site) (*policy.Rules, error) {
	if _, err := os.Lstat(p.file); errors.Is(err, fs.ErrNotExist) && p.policy.Rules() == nil {
		return nil, nil
	}
	return policy.Load(p.file, site)
}

// reloadFor reads the files for a new inventory and calls replace, which must replace the
// inventory. replace must call setRules in the same decision, so that no change depends on one of
// them alone. After an error the old rules stay.
func (p *policyFile) reloadFor(inv *inventory.Inventory, replace func(setRules func()) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	site, before := PolicySite(inv), p.state()
	rules, err := p.load(site)
	if err != nil {
		return err
	}
	if err := replace(func() { p.policy.SetRules(rules) }); err != nil {
		return err
	}
	p.site, p.seen, p.tried, p.lastError = site, before, time.Now(), ""
	p.logRules(rules)
	return nil
}

func (p *policyFile) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastError != ""
}

func (p *policyFile) logRules(rules *policy.Rules) {
	if rules == nil {
		return
	}
	p.log.Info("policy read", "file", p.file, "rules", rules.Len())
	for _, r := range rules.Remarks() {
		p.log.Warn("policy", "remark", r.String())
	}
}

func (p *policyFile) watch(ctx context.Context) {
	watchFiles(ctx, 0, p.state, func(now string) {
		p.mu.Lock()
		changed, wrong, due := now != p.seen, p.lastError, time.Since(p.tried) >= policyRetry
		p.mu.Unlock()
		switch {
		case changed:
			p.read("")
		case wrong != "" && due:
			p.read(wrong)
		}
	})
}

// ErrNothingHeld means that the site has no store, so no user holds anything.
var ErrNothingHeld = errors.New("the site has not served yet")

// Held returns the resources that a user, a slice and the slice's project hold, and what the user reserved ahead. It fails with
// ErrNothingHeld if the site has no store.
func (c *Config) Held(ctx context.Context, user, slice urn.URN) (h policy.Used, err error) {
	if _, err := os.Stat(c.State); errors.Is(err, os.ErrNotExist) {
		return h, ErrNothingHeld
	}
	q := url.Values{"user": {user.String()}, "slice": {slice.String()}}
	err = Connect(c).Ask(ctx, "/held?"+q.Encode(), &h)
	return h, err
}
