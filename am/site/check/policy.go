package check

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/service/policy"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/inventory"
)

// Subject is the user whose rights Explain describes, and a slice; Slice is "" for none.
type Subject struct{ User, Slice string }

func (k *Checker) policy(c *site.Config, inv *inventory.Inventory) {
	rules, err := c.LoadPolicy(inv)
	if err != nil {
		k.Errors(err)
		return
	}
	if rules == nil {
		k.good(c.Policy, "there is no policy: all users may reserve everything within the lease limits")
		return
	}
	for _, s := range rules.Sentences() {
		k.good(c.Policy, "%s", s)
	}
	for _, p := range append(rules.Remarks(), rules.UnmatchedPatterns(k.authorities(c))...) {
		k.warn("", "%s", p)
	}
}

// policyFile checks a file as if it were the policy of the configured site, or else of the site in the
// same folder. Without a site it fails, because rules name components of an inventory.
func (k *Checker) policyFile(name string) {
	config := k.Config
	if beside := filepath.Join(filepath.Dir(name), site.ConfigName); config == nil && fileExists(beside) {
		var err error
		if config, err = site.ReadConfig(beside); err != nil {
			k.Errors(err)
			return
		}
	}
	if config == nil {
		k.bad(name, "this is a policy, which is checked with its site; name the site with --config")
		return
	}
	c := *config
	c.Policy = name
	if inv := k.inventory(c.Inventory, c.Authority); inv != nil {
		k.policy(&c, inv)
	}
}

// authorities returns the authorities that the trust folder covers. Sub-authorities are covered,
// too, but not listed.
func (k *Checker) authorities(c *site.Config) (all []string) {
	a, _, err := cert.NewFolder(c.Trusted, c.Credentials.Certificates()).Load(time.Now())
	if err != nil {
		return nil
	}
	for _, x := range a.List() {
		all = append(all, x.Covers()...)
	}
	return all
}

// Explain prints the rights of a user at a site, and the resources that the user holds.
func (k *Checker) Explain(ctx context.Context, file string, w Subject) {
	c, err := site.ReadConfig(file)
	if err != nil {
		k.Errors(err)
		return
	}
	k.Config = c
	inv, err := c.LoadInventory()
	if err != nil {
		k.Errors(err)
		return
	}
	user, slice, err := w.parse(c)
	if err != nil {
		k.bad("", "%v", err)
		return
	}
	rules, err := c.LoadPolicy(inv)
	if err != nil {
		k.Errors(err)
		return
	}
	if !slices.ContainsFunc(k.authorities(c), func(a string) bool { return urn.Covers(a, user.Authority) }) {
		k.warn(c.Trusted, "no certificate here covers %s, so this user cannot call at all", user.Authority)
	}
	k.warnUnknown(ctx, c, user, slice)
	e := rules.Explain(user, slice) // also without a policy, when rules is nil
	where := "in slices of projects that no rule names"
	if !slice.IsZero() {
		where = "in " + slice.String()
	}
	at := c.Policy
	switch {
	case rules == nil:
		k.good(at, "there is no policy for %s", user)
	case e.Line == 0:
		k.good(at, "no rule is for %s %s", user, where)
	case e.Rule == "":
		k.good(fmt.Sprintf("%s:%d", at, e.Line), "no rule is for %s %s, so this line decides", user, where)
	default:
		k.good(fmt.Sprintf("%s:%d", at, e.Line), "rule %q decides for %s %s", e.Rule, user, where)
	}
	h, err := c.Held(ctx, user, slice)
	if e.Refused == "" && (err == nil || errors.Is(err, site.ErrNothingHeld)) {
		e.Refused = rules.Full(user, slice, h.Held)
	}
	if e.Refused != "" {
		k.warn("", "this user can reserve nothing now: %s", e.Refused)
	}
	for _, s := range e.May {
		k.good("", "%s", s)
	}
	k.good("", "%s", leaseLimits(c))
	k.reportHeld(c, slice, h, err)
}

// warnUnknown warns of a user and a slice of the trial authority that do not exist.
func (k *Checker) warnUnknown(ctx context.Context, c *site.Config, user, slice urn.URN) {
	dir := filepath.Join(filepath.Dir(c.Origin.File), site.AuthorityDir)
	a, err := site.ConnectAuthority(ctx, c)
	if err != nil {
		return // reported by the check of the site
	}
	if strings.EqualFold(a.URN().Authority, user.Authority) && !a.HasUser(user.Name) {
		k.warn(dir, "there is no user %q; correct the name, or make the user with: %s", user.Name, display.Command("user", user.Name, "--config", c.Origin.File))
	}
	if slice.IsZero() || !strings.EqualFold(a.URN().Authority, slice.Authority) {
		return
	}
	has, err := a.HasSlice(slice.Name)
	switch {
	case err != nil:
		k.warn(dir, "the slices of the trial authority cannot be read: %v", err)
	case !has:
		k.warn(dir, "the trial authority has no slice %q; correct the name, or make it with patchbay slice", slice.Name)
	}
}

func leaseLimits(c *site.Config) string {
	l := c.Leases
	return fmt.Sprintf("lease limits for all users: a reservation lasts %s, with Renew up to %s; the first lease lasts %s, a renewed one up to %s; no lease outlives the credential",
		display.Duration(l.Allocated), display.Duration(l.AllocatedMax), display.Duration(l.Provisioned), display.Duration(l.ProvisionedMax))
}

// parse parses the user and the slice, which are URNs, or names in the trial authority.
func (w Subject) parse(c *site.Config) (user, slice urn.URN, err error) {
	read := func(text, kind string) (urn.URN, error) {
		if !strings.Contains(text, "+") && !strings.HasPrefix(strings.ToLower(text), "urn:") {
			text = urn.URN{Authority: c.Authority, Type: kind, Name: text}.String()
		}
		u, err := urn.Parse(text)
		if err == nil && u.Type != kind {
			err = fmt.Errorf("%s is not the URN of a %s", u, kind)
		}
		if err != nil {
			err = fmt.Errorf("--%s: %w; give the URN of a %s, or its name in the trial authority", kind, err, kind)
		}
		return u, err
	}
	if user, err = read(w.User, urn.User); err != nil || w.Slice == "" {
		return user, slice, err
	}
	slice, err = read(w.Slice, urn.Slice)
	return user, slice, err
}

// reportHeld prints the held resources h, or the error from reading them.
func (k *Checker) reportHeld(c *site.Config, slice urn.URN, h policy.Used, err error) {
	if errors.Is(err, site.ErrNothingHeld) {
		k.good("", "held now: nothing, because %v", err)
		return
	}
	if err != nil {
		k.warn(filepath.Base(c.State), "the resources in use cannot be read: %v", err)
		return
	}
	text := fmt.Sprintf("held now: by the user %s", amountText(h.User))
	if !slice.IsZero() {
		text += fmt.Sprintf(", in the slice %s, in its project %s", amountText(h.Slice), amountText(h.Project))
	}
	if h.Windows > 0 {
		text += fmt.Sprintf("; reserved ahead: %s with %s", display.Count(int(h.Windows), "reservation"), display.Count(int(h.NodeHours), "node-hour"))
	}
	k.good("", "%s", text)
}

func amountText(a policy.Amount) string {
	text := display.Count(int(a.Nodes), "node")
	if a.Cores > 0 {
		text += " with " + display.Count(int(a.Cores), "core")
	}
	if a.Disk > 0 {
		text += fmt.Sprintf(" and %.4gG of disk", float64(a.Disk)/1024)
	}
	return text
}
