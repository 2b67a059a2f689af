package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory"
)

// ReloadReport is the effect of a changed inventory, or the reasons why it cannot be used.
type ReloadReport struct {
	File  string   // the path of the inventory
	Wrong []string // the reasons why the inventory cannot be used
	// Changes are the differences from the previous inventory. MoreChanges is the number of
	// differences that Changes leaves out.
	Changes     []inventory.Change
	MoreChanges int
	// Consequences are the effects on slivers that the previous inventory did not have.
	// MoreConsequences is the number of further such effects, beyond maxReported. OldConsequences
	// is the number of effects that the previous inventory already had.
	Consequences     []inventory.Consequence
	MoreConsequences int
	OldConsequences  int
	// Later are changes of other files, each with what is needed for its effect.
	Later []Later
	// Clock is the host's time instead of the time that leases followed, if the reload made the
	// host's clock trusted; else "".
	Clock string
	// Unmanaged are the slivers of providers that are missing or unusable.
	Unmanaged []unmanagedSlivers
}

// Later is a change that a reload does not carry out, or not for everything. Where is its place.
type Later struct{ Where, Text string }

// maxReported limits each list of a ReloadReport.
const maxReported = 500

func (r *ReloadReport) compare(previous, current *inventory.Inventory) {
	all := inventory.Compare(previous, current)
	r.Changes = all[:min(len(all), maxReported)]
	r.MoreChanges = len(all) - len(r.Changes)
}

// compareSlivers adds the consequences of the inventory current for the slivers in the store, and
// the slivers of providers that are not usable. It only counts a consequence that the inventory
// previous already had. If previous is nil, it adds all consequences.
func (r *ReloadReport) compareSlivers(previous, current *inventory.Inventory, s *store.Store, usable func(name string) error) error {
	slivers, err := s.Slivers()
	if err != nil {
		return err
	}
	all := inventory.Consequences(current, slivers)
	if previous != nil {
		type key struct{ what, text, slice string }
		before := make(map[key]bool)
		for _, c := range inventory.Consequences(previous, slivers) {
			before[key{c.What, c.Text, c.Slice}] = true
		}
		n := len(all)
		all = slices.DeleteFunc(all, func(c inventory.Consequence) bool { return before[key{c.What, c.Text, c.Slice}] })
		r.OldConsequences = n - len(all)
	}
	r.Consequences = all[:min(len(all), maxReported)]
	r.MoreConsequences = len(all) - len(r.Consequences)
	r.Unmanaged = findUnmanaged(slivers, usable)
	return nil
}

func (r *ReloadReport) summary() string {
	return fmt.Sprintf("%s; %s for slivers", display.Count(len(r.Changes)+r.MoreChanges, "change"), display.Count(len(r.Consequences)+r.MoreConsequences, "new consequence"))
}

// Where returns the file and line of a consequence.
func (r *ReloadReport) Where(c inventory.Consequence) string { return display.Place(r.File, c.Line) }

func (s *Site) logReload(r *ReloadReport) {
	for _, c := range r.Changes {
		s.log.Info("inventory", "change", c.String())
	}
	if r.MoreChanges > 0 {
		s.log.Info("the inventory has more changes than are logged", "more", r.MoreChanges)
	}
	for _, c := range r.Consequences {
		if c.Warning {
			s.log.Warn("inventory", "where", r.Where(c), "consequence", c.String())
		} else {
			s.log.Info("inventory", "where", r.Where(c), "consequence", c.String())
		}
	}
	for _, l := range r.Later {
		s.log.Warn("reload", "where", l.Where, "change", l.Text)
	}
	s.logUnmanaged(r)
	if r.MoreConsequences > 0 {
		s.log.Warn("the inventory has more consequences for slivers than are logged; patchbay check lists the first ones, too", "more", r.MoreConsequences)
	}
}

func (s *Site) logUnmanaged(r *ReloadReport) {
	for _, o := range r.Unmanaged {
		s.log.Warn("slivers were made by a provider that is missing or cannot be used, so they can be neither watched nor removed; repair the provider, and keep it until these slivers are removed",
			"provider", o.Provider, "slivers", o.Slivers, "slice", o.Slice, "slices", o.Slices, "error", o.Why)
	}
}

// tryInventory reads the inventory and the settings again, and reports their changes. It fails if a
// reload cannot use them. It does not replace the current inventory.
func (s *Site) tryInventory() (*ReloadReport, *inventory.Inventory, error) {
	r := &ReloadReport{File: s.config.Inventory}
	config, err := s.requireSameSite()
	if err != nil {
		return r, nil, err
	}
	changed, err := s.companions.changed(s.config.Providers)
	if err != nil {
		return r, nil, err
	}
	for _, c := range changed {
		r.Later = append(r.Later, c.report())
	}
	r.Later = append(r.Later, s.unusedSettings(config)...)
	inv, err := s.config.LoadInventory()
	if err != nil {
		return r, nil, err
	}
	if err := s.providers.require(inv, s.config.Inventory); err != nil {
		return r, nil, err
	}
	if inv, err = s.withFound(inv.WithCleaning(s.providers.cleaningTimes())); err != nil {
		return r, nil, err
	}
	slivers, err := s.store.Slivers()
	if err == nil {
		err = inventory.CheckClash(inv, s.config.Inventory, slivers)
	}
	if err != nil {
		return r, nil, err
	}
	if err := s.checkMaintenanceNames(s.inventory.Load(), inv); err != nil {
		return r, nil, err
	}
	r.compare(s.inventory.Load(), inv)
	return r, inv, nil
}

// requireSameSite fails if the configuration file now names another authority or another inventory.
// A reload cannot change these.
func (s *Site) requireSameSite() (*Config, error) {
	c, err := ReadConfig(s.config.Origin.File)
	switch {
	case err != nil:
		return nil, err
	case c.Authority != s.config.Authority:
		return nil, c.Origin.errorf("authority", "it is %s, but the served site is %s; a new authority needs a new site, so set it back to %[2]s", c.Authority, s.config.Authority)
	case c.Inventory != s.config.Inventory:
		return nil, c.Origin.errorf("inventory", "it is %s, but the served site reads %s; to use another file, restart the server", c.Inventory, s.config.Inventory)
	}
	return c, nil
}

// unusedSettings returns the settings that have changed since the start of the server.
func (s *Site) unusedSettings(now *Config) (list []Later) {
	if s.read == nil {
		return nil
	}
	for _, key := range changedKeys(reflect.ValueOf(s.read).Elem(), reflect.ValueOf(now).Elem(), "") {
		list = append(list, Later{now.Origin.Where(key), key + " has changed; it takes effect when the server is restarted"})
	}
	return list
}

// changedKeys returns the keys of the settings that differ.
func changedKeys(a, b reflect.Value, prefix string) (keys []string) {
	other := maps.Collect(fields(b))
	for name, field := range fields(a) {
		switch {
		case field.Kind() == reflect.Struct:
			keys = append(keys, changedKeys(field, other[name], prefix+name+".")...)
		case !reflect.DeepEqual(field.Interface(), other[name].Interface()):
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

// reloadInventory replaces the inventory by that in the file, and reads the policy again for it. It
// starts, restarts and stops services of providers, and records the reload in the journal in the
// name of the operator. After an error nothing has changed, unless the error says that the new
// inventory is used.
func (s *Site) reloadInventory(ctx context.Context, operator string) (*ReloadReport, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	r, inv, err := s.tryInventory()
	if err == nil {
		err = ctx.Err() // ctx may have ended while files were read
	}
	if err != nil {
		return r, err
	}
	was := s.inventory.Load()
	err = s.policy.reloadFor(inv, func(rules func()) error {
		s.companions.add(findCompanions(s.config.Providers, providersOf(inv)))
		return s.aggregate.SetInventory(ctx, inv, func() {
			rules()
			s.api.SetReading(s.config.ReadOptions(inv))
		})
	})
	if err != nil {
		return r, err
	}
	s.retireCompanions()
	changed, err := s.companions.changed(s.config.Providers)
	for _, c := range changed {
		if c.own {
			s.companions.restart(c)
		}
	}
	if err != nil { // an error since tryInventory
		s.log.Warn("the settings of a provider cannot be used", "error", err)
	}
	s.drainOrphaned(ctx)
	s.runner.Wake()
	err = r.compareSlivers(was, inv, s.store, s.providers.checkUsable)
	act := operate.Note{Event: "reload", Text: r.summary(), Operator: operator}
	if err != nil {
		act.Text = display.Count(len(r.Changes)+r.MoreChanges, "change")
	}
	_ = s.recordAct(act) // an error is logged
	if err != nil {
		return r, fmt.Errorf("the new inventory is used, but its effect on slivers cannot be determined: %w", err)
	}
	s.log.Info("inventory read", "file", r.File, "components", len(inv.Components), "changes", len(r.Changes)+r.MoreChanges)
	s.logReload(r)
	s.maintenance.logUnknown(s.maintenance.shown.Load())
	s.recordLoggedInventory(inv)
	return r, nil
}

// reportInventory logs the consequences for existing slivers at the start, because the file may
// have changed since the last run. It fails if the inventory clashes with slivers.
func (s *Site) reportInventory(ctx context.Context, st *store.Store, aggregate *service.Service) error {
	slivers, err := st.Slivers()
	if err == nil {
		err = inventory.CheckClash(s.inventory.Load(), s.config.Inventory, slivers)
	}
	if err != nil {
		return err
	}
	if !s.config.readOnly {
		if err := aggregate.FillInRecords(ctx); err != nil {
			return err
		}
	}
	r := &ReloadReport{File: s.config.Inventory}
	inv := s.inventory.Load()
	if err := r.compareSlivers(nil, inv, st, s.providers.checkUsable); err != nil {
		return err
	}
	if !s.isLoggedInventory(inv) {
		s.logReload(r)
		s.recordLoggedInventory(inv)
		return nil
	}
	s.logUnmanaged(r)
	if n := len(r.Consequences) + r.MoreConsequences; n > 0 {
		s.log.Info("the inventory has not changed, and some slivers differ from it; to list them: patchbay check", "consequences", n)
	}
	return nil
}

// usedProviders returns the providers that the current inventory or a sliver names.
func (s *Site) usedProviders() (map[string]bool, error) {
	used := providersOf(s.inventory.Load())
	err := s.store.Read(func(v *store.View) error {
		return v.Slivers(func(x am.Sliver) bool { used[x.Provider] = true; return true })
	})
	return used, err
}

// retirePause is the interval at which unused services are stopped.
const retirePause = time.Minute

func (s *Site) watchCompanions(ctx context.Context) {
	ticks := time.NewTicker(retirePause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if s.reloading.TryLock() { // a reload starts new services before it replaces the inventory
				s.retireCompanions()
				s.reloading.Unlock()
			}
		}
	}
}

// retireCompanions stops services of providers that neither the inventory nor a sliver names. If the
// store cannot be read, it stops none.
func (s *Site) retireCompanions() {
	if needed, err := s.usedProviders(); err == nil {
		s.companions.retire(needed)
	}
}

// errorLines returns the lines of an error. After maxReported lines, one line has the number of the
// remaining lines.
func errorLines(err error) (lines []string) {
	more := 0
	for line := range strings.Lines(err.Error()) {
		if len(lines) == maxReported {
			more++
			continue
		}
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// ReloadEffect reports the effect that a reload of the inventory would have on the served site. If
// the site is not served, it reports the consequences of the inventory for the slivers in the store.
// It fails with ErrNeverServed if there is no store.
func (c *Config) ReloadEffect(ctx context.Context) (r *ReloadReport, served bool, err error) {
	r = &ReloadReport{}
	served, err = Connect(c).exchange(ctx, query{http.MethodGet, "/reload", nil, false}, r)
	return r, served, err
}

// checkMaintenanceNames fails if an inventory gives a new name to a component that the
// maintenance file takes out of service under its old name. Such a component would silently
// return to service.
func (s *Site) checkMaintenanceNames(previous, current *inventory.Inventory) error {
	plan, err := maintenance.Read(s.config.Maintenance)
	if err != nil {
		plan = s.maintenance.shown.Load() // the previous content still applies; maintenanceFile.read logs the error
	}
	renamed := func(name string) (*inventory.Component, bool) {
		old, ok := previous.ComponentNamed(name)
		if _, exists := current.ComponentNamed(name); !ok || exists {
			return nil, false
		}
		return current.Component(old.URN)
	}
	var errs []error
	for _, x := range plan.Unknown(func(name string) bool { _, ok := renamed(name); return !ok }) {
		if x.Line == 0 {
			continue // a drain because of orphans, which is updated after the reload
		}
		c, _ := renamed(x.Name)
		errs = append(errs, fmt.Errorf("%s: %s is out of service under this name, and would be in service as %s; write the new name there too, or put it in service first (patchbay undrain, patchbay maintenance)",
			display.Place(s.config.Maintenance, x.Line), x.Name, c.Name))
	}
	return errors.Join(errs...)
}

// loggedInventoryName is a file beside the store with the fingerprint of the inventory that was
// last logged. If the file is missing, the inventory is logged again.
const loggedInventoryName = "inventory.logged"

func (c *Config) loggedInventoryFile() string {
	return filepath.Join(filepath.Dir(c.State), loggedInventoryName)
}

func (s *Site) isLoggedInventory(inv *inventory.Inventory) bool {
	text, err := os.ReadFile(s.config.loggedInventoryFile())
	return err == nil && bytes.Equal(text, fingerprintText(inv))
}

func (s *Site) recordLoggedInventory(inv *inventory.Inventory) {
	if err := ReplaceFile(s.config.loggedInventoryFile(), fingerprintText(inv), 0o644); err != nil {
		s.log.Warn("the fingerprint of the inventory cannot be written, so the next start logs its consequences again", "error", err)
	}
}

func fingerprintText(inv *inventory.Inventory) []byte {
	return fmt.Appendf(nil, "%s\n", inv.Fingerprint)
}
