package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/audit"
	"patchbay/am/store"
	"patchbay/inventory"
)

const reloadLong = `Let a served site take over its changed inventory, and read its policy with it. What
was added can be had from now on; what was removed or drained takes nothing new. No
sliver is lost by it: each stays what it was promised, looked after by the provider
that has made it, until it is deleted or its lease is over.

The answer tells what has changed, and what that means for slivers that are there,
with their slices and the ends of their leases. With a mistake in the inventory, its
providers or the policy nothing changes at all. patchbay check tells the same before.

SIGHUP does the same, and tells it in the log.`

type reloadOptions struct{ site siteFlag }

func (o *reloadOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *reloadOptions) Validate(args []string) error { return noArguments(args) }

func (o *reloadOptions) Run(ctx context.Context, c console) error {
	config, _, err := o.site.read()
	if err != nil {
		return err
	}
	var r reloadReport
	err = tellSite(ctx, config, "/reload", siteOrder{audit.Operator()}, &r)
	if errors.Is(err, errNotServed) {
		return fmt.Errorf("the site is not served, so there is nothing to reload; it reads the inventory when it starts. What that means for slivers: %s", o.site.hint("check"))
	}
	if err != nil {
		return err
	}
	if len(r.Wrong) > 0 {
		return fmt.Errorf("nothing has changed, for there are mistakes:\n%s", strings.Join(r.Wrong, "\n"))
	}
	r.print(c.out)
	return nil
}

// reloadReport is what taking over an inventory means, or why it cannot be.
type reloadReport struct {
	File  string // the inventory
	Wrong []string
	// Changes are what is otherwise; MoreChanges counts those that are left out.
	Changes     []inventory.Change
	MoreChanges int
	// Meets are what it means for slivers; More counts those that are left out, and
	// Before those that were so with the inventory before.
	Meets  []inventory.Consequence
	More   int
	Before int
	// Orphans are slivers of providers that are gone.
	Orphans []orphans
}

// maxMeets bounds the answer, each list by itself; nobody reads more.
const maxMeets = 500

// compare adds what is otherwise in now.
func (r *reloadReport) compare(was, now *inventory.Inventory) {
	all := inventory.Compare(was, now)
	r.Changes = all[:min(len(all), maxMeets)]
	r.MoreChanges = len(all) - len(r.Changes)
}

// meet adds what v means for the slivers that are there; what was so with the
// inventory before is only counted, if that is not nil. It also adds whose providers are gone; usable
// tells what is wrong with a provider.
func (r *reloadReport) meet(was, v *inventory.Inventory, s *store.Store, usable func(name string) error) error {
	slivers, err := s.Slivers()
	if err != nil {
		return err
	}
	all := inventory.Meet(v, slivers)
	if was != nil {
		type key struct{ what, text, slice string }
		before := make(map[key]bool)
		for _, c := range inventory.Meet(was, slivers) {
			before[key{c.What, c.Text, c.Slice}] = true
		}
		n := len(all)
		all = slices.DeleteFunc(all, func(c inventory.Consequence) bool { return before[key{c.What, c.Text, c.Slice}] })
		r.Before = n - len(all)
	}
	r.Meets = all[:min(len(all), maxMeets)]
	r.More = len(all) - len(r.Meets)
	r.Orphans = findOrphans(slivers, usable)
	return nil
}

// summary is one line for log and audit.
func (r *reloadReport) summary() string {
	return fmt.Sprintf("%s; slivers meet %s", plural(len(r.Changes)+r.MoreChanges, "change"), plural(len(r.Meets)+r.More, "new consequence"))
}

// where is the place of a consequence in the file.
func (r *reloadReport) where(c inventory.Consequence) string { return where(r.File, c.Line) }

func (r *reloadReport) print(out io.Writer) {
	if len(r.Changes) == 0 {
		fmt.Fprintln(out, "The inventory is as it was.")
	} else {
		fmt.Fprintln(out, "The inventory is in force. What has changed:")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(out, "  %s\n", printable(c.String()))
	}
	if r.MoreChanges > 0 {
		fmt.Fprintf(out, "  and %d more.\n", r.MoreChanges)
	}
	for _, o := range r.Orphans {
		fmt.Fprintf(out, "%-8s %s\n", "warning", printable(o.String()))
	}
	switch {
	case len(r.Meets) == 0 && r.Before > 0:
		fmt.Fprintf(out, "It means nothing new for slivers; patchbay check tells %s as before.\n", plural(r.Before, "consequence"))
		return
	case len(r.Meets) == 0:
		fmt.Fprintln(out, "No sliver is on anything that is otherwise than it was promised.")
		return
	}
	fmt.Fprintln(out, "What it means for slivers that are there, and that all stay as they are:")
	for _, c := range r.Meets {
		severity := "note"
		if c.Warning {
			severity = "warning"
		}
		fmt.Fprintf(out, "  %-8s %s: %s\n", severity, r.where(c), printable(c.String()))
	}
	if r.More > 0 {
		fmt.Fprintf(out, "  and %d more.\n", r.More)
	}
	if r.Before > 0 {
		fmt.Fprintf(out, "  as before: %s, which patchbay check tells\n", plural(r.Before, "consequence"))
	}
}

// tellReload tells the same to the log.
func (s *site) tellReload(r *reloadReport) {
	for _, c := range r.Changes {
		s.log.Info("inventory", "change", c.String())
	}
	if r.MoreChanges > 0 {
		s.log.Info("the inventory has more changes than are told here", "more", r.MoreChanges)
	}
	for _, c := range r.Meets {
		if c.Warning {
			s.log.Warn("inventory", "where", r.where(c), "consequence", c.String())
		} else {
			s.log.Info("inventory", "where", r.where(c), "consequence", c.String())
		}
	}
	s.tellOrphans(r)
	if r.More > 0 {
		s.log.Warn("the inventory meets more slivers than are told here; patchbay check tells of the first, too", "more", r.More)
	}
}

// tellOrphans tells of slivers whose providers are gone, at each start: they need an
// operator.
func (s *site) tellOrphans(r *reloadReport) {
	for _, o := range r.Orphans {
		s.log.Warn("slivers were made by a provider that is missing or cannot be used, so they can be neither looked after nor removed; put it right until they are gone",
			"provider", o.Provider, "slivers", o.Slivers, "slice", o.Slice, "slices", o.Slices, "error", o.Why)
	}
}

// tryInventory reads the inventory as it is now and tells what it would mean.
func (s *site) tryInventory() (*reloadReport, *inventory.Inventory, error) {
	r := &reloadReport{File: s.config.Inventory}
	if err := s.sameSite(); err != nil {
		return r, nil, err
	}
	inv, err := inventory.Load(s.config.Inventory, s.config.Authority)
	if err != nil {
		return r, nil, err
	}
	if err := s.providers.require(inv, s.config.Inventory); err != nil {
		return r, nil, err
	}
	slivers, err := s.store.Slivers()
	if err == nil {
		err = inventory.Clash(inv, s.config.Inventory, slivers)
	}
	if err != nil {
		return r, nil, err
	}
	if err := s.keepsOutOfService(s.index.Inventory(), inv); err != nil {
		return r, nil, err
	}
	r.compare(s.index.Inventory(), inv)
	return r, inv, nil
}

// sameSite refuses what a running site cannot become.
func (s *site) sameSite() error {
	c, err := ReadConfig(s.config.origin.file)
	switch {
	case err != nil:
		return err
	case c.Authority != s.config.Authority:
		return c.origin.wrong("authority", "it is %s, but the site that is served is %s; a new authority is a new site, so set it back", c.Authority, s.config.Authority)
	case c.Inventory != s.config.Inventory:
		return c.origin.wrong("inventory", "it is %s, but the site that is served reads %s; another file needs a new start", c.Inventory, s.config.Inventory)
	}
	return nil
}

// reloadInventory puts the inventory in force as it is in the file, with the
// policy read anew for it, and tells what that means. The audit tells that operator
// did it, even if he does not wait for the answer. With an error nothing has
// changed.
func (s *site) reloadInventory(ctx context.Context, operator string) (*reloadReport, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	r, inv, err := s.tryInventory()
	if err == nil {
		err = ctx.Err() // reading may have taken until after the end
	}
	if err != nil {
		return r, err
	}
	was := s.index.Inventory()
	err = s.policy.follow(inv, func(rules func()) error {
		s.testbeds.follow(findTestbeds(s.config.Providers, providersOf(inv)))
		return s.aggregate.SetInventory(ctx, inv, func() {
			rules()
			s.api.Follow(s.config.reading(inv))
		})
	})
	if err != nil {
		return r, err
	}
	s.retireTestbeds()
	s.holdUnpromised(ctx)
	s.runner.Wake()
	err = r.meet(was, inv, s.store, s.providers.usable)
	act := audit.Act{What: "reload", Text: r.summary(), Operator: operator}
	if err != nil {
		act.Text = plural(len(r.Changes)+r.MoreChanges, "change")
	}
	s.noteAct(act.Operator, act.What, act.Text)
	if err != nil {
		return r, fmt.Errorf("the inventory is in force, but what it means for slivers cannot be told: %w", err)
	}
	s.log.Info("inventory read", "file", r.File, "components", len(inv.Components), "changes", len(r.Changes)+r.MoreChanges)
	s.tellReload(r)
	s.upkeep.tellUnknown(s.upkeep.shown.Load())
	s.noteInForce(inv)
	return r, nil
}

// meetInventory tells at the start what the inventory means for slivers that were
// there before, for it may be another than that with which the site ended.
func (s *site) meetInventory(ctx context.Context) error {
	slivers, err := s.store.Slivers()
	if err == nil {
		err = inventory.Clash(s.index.Inventory(), s.config.Inventory, slivers)
	}
	if err != nil {
		return err
	}
	if !s.config.readOnly {
		if err := s.aggregate.Remember(ctx); err != nil {
			return err
		}
	}
	r := &reloadReport{File: s.config.Inventory}
	inv := s.index.Inventory()
	if err := r.meet(nil, inv, s.store, s.providers.usable); err != nil {
		return err
	}
	if !s.wasInForce(inv) {
		s.tellReload(r)
		s.noteInForce(inv)
		return nil
	}
	s.tellOrphans(r)
	if n := len(r.Meets) + r.More; n > 0 {
		s.log.Info("the inventory is as it was, and slivers are on what is otherwise than they were promised; patchbay check tells of it", "consequences", n)
	}
	return nil
}

// needed are the providers that the inventory in force names, or slivers.
func (s *site) needed() (map[string]bool, error) {
	used := providersOf(s.index.Inventory())
	err := s.store.Read(func(v *store.View) error {
		return v.Slivers(func(x am.Sliver) bool { used[x.Provider] = true; return true })
	})
	return used, err
}

// retirePause is how often it is looked whether a local testbed is still needed.
const retirePause = time.Minute

// watchTestbeds ends local testbeds that nobody needs any more, until ctx ends.
func (s *site) watchTestbeds(ctx context.Context) {
	ticks := time.NewTicker(retirePause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if s.reloading.TryLock() { // one that is being taken over has its testbeds before it counts
				s.retireTestbeds()
				s.reloading.Unlock()
			}
		}
	}
}

// retireTestbeds ends local testbeds that neither the inventory names nor slivers.
// Without an answer of the store they stay.
func (s *site) retireTestbeds() {
	if needed, err := s.needed(); err == nil {
		s.testbeds.retire(needed)
	}
}

// answerReload is what a command asks of a served site: POST takes the inventory
// over, GET tells what that would mean.
func (s *site) answerReload(w http.ResponseWriter, r *http.Request) {
	var report *reloadReport
	var err error
	if r.Method == http.MethodPost {
		order, ok := readOrder(w, r)
		if !ok {
			return
		}
		report, err = s.reloadInventory(context.WithoutCancel(r.Context()), order.Operator)
	} else {
		var inv *inventory.Inventory
		if report, inv, err = s.tryInventory(); err == nil {
			_, err = s.policy.load(policySite(inv))
		}
		if err == nil {
			err = report.meet(nil, inv, s.store, s.providers.usable)
		}
	}
	if err != nil {
		report.Wrong = errorLines(err)
		if r.Method == http.MethodPost {
			s.log.Error("the inventory cannot be taken over; what is in force stays so", "error", err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(report) // who asked may have left
}

// errorLines has a line for each mistake in err, or for the first of them and how many
// more there are.
func errorLines(err error) (lines []string) {
	more := 0
	for line := range strings.Lines(err.Error()) {
		if len(lines) == maxMeets {
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
