package service

import (
	"encoding/json"
	"slices"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/step"
)

// maxSetupBytes limits the steps of all nodes of a request. Records contain the steps, and each
// change to a record writes them again.
const maxSetupBytes = 4 << 20

// planSetup sets the steps of the slivers, which belong to the bound nodes in the same order. The
// slice has the slivers in live already, and a change keeps those in kept.
func (s *Service) planSetup(req *rspec.Request, document string, bound []binder.Bound, live, slivers []am.Sliver, kept map[string]*am.Sliver) error {
	var playbooks *step.Playbooks
	if hasPlaybooks(req) {
		var err error
		if playbooks, err = s.playbooks(req, bound, live, slivers); err != nil {
			return err
		}
	}
	nodes := make([]step.Node, len(slivers))
	for i := range slivers {
		x := &slivers[i]
		nodes[i] = step.Node{ClientID: x.ClientID, Hostname: x.Hostname, SliverURN: x.URN.String(), Services: &bound[i].Node.Services}
	}
	isAdded := func(x am.Sliver) bool { // a call has stored it already, if it asks providers for a dry run
		was := kept[x.ClientID]
		return was == nil || was.Document == document
	}
	n, moreNodes := 0, slices.ContainsFunc(slivers, isAdded)
	inv := s.Inventory()
	for i, steps := range step.Plan(slivers[0].Slice.String(), nodes, playbooks) {
		if err := deliver(inv, slivers[i].ClientID, steps); err != nil {
			return err
		}
		if x := &slivers[i]; isAdded(*x) {
			x.Setup = steps
		} else {
			changeSteps(x, steps, moreNodes)
		}
		steps = slivers[i].Setup
		text, err := json.Marshal(steps)
		if err != nil {
			return err
		}
		n += len(text)
	}
	if n > maxSetupBytes {
		return am.Errorf(am.TooBig, "the services of the nodes take %d bytes; the limit is %d; put scripts into an archive that is fetched over http, or request fewer nodes at a time", n, maxSetupBytes)
	}
	return s.checkStages(slivers)
}

// deliver adds the digests to the files of the site's catalogue that the steps of a node fetch.
func deliver(inv *inventory.Inventory, node string, steps []step.Step) error {
	for i := range steps {
		steps[i].Files = slices.Clone(steps[i].Files) // the request has the same ones
		for _, url := range steps[i].URLs() {
			name, ok := step.CatalogueFile(*url)
			if !ok {
				continue
			}
			sum := inv.Catalogue[name]
			if sum == "" {
				return am.Errorf(am.Unsupported, "node %.80q: the site's catalogue has no file %.80q; compile the document again, or ask the operator to put the file into the folder %s of the site and to name it in inventory.yaml, under software or galaxy", node, name, inventory.CatalogueFolder)
			}
			*url = step.DeliveredURL(name, sum)
		}
	}
	return nil
}

// continuation continues the plans of the slivers of one call of patchbay_setup.
type continuation struct {
	call      Call
	hasStages func(provider string) bool
	called    map[urn.URN]bool
	documents map[string]bool // of the slivers whose plan continues
}

// reopenFailed makes the failed steps of a sliver run again, and gives it the status. It changes nothing if the sliver's steps are
// done or still run.
func (c *continuation) reopenFailed(v *store.View, cs *store.ChangeSet, x *am.Sliver, status am.Status) error {
	c.called[x.URN] = true
	failed := x.FailedStep()
	if x.Status.Operational == am.Failed && failed < 0 {
		return am.Errorf(am.Unsupported, "%s cannot mend sliver %s: no step of its setup has failed, but the node: %s; Delete it", am.ActionSetup, x.ClientID, x.Error).About(x.URN)
	}
	if failed < 0 && x.SetupStopped == "" {
		return nil
	}
	if !c.hasStages(x.Provider) {
		return am.Errorf(am.Unsupported, "the testbed of %s cannot run steps again; log in and run them by hand, or Delete the sliver", x.ComponentName).About(x.URN)
	}
	if failed >= 0 {
		x.Desired.Stage = min(x.Desired.Stage, x.Setup[failed].Stage-1)
	}
	c.documents[x.Document] = true
	c.reopen(v, cs, x, status)
	return nil
}

// reopenOthers continues the plans on the other slivers of the documents. Call it after reopenFailed of all
// slivers of the call.
func (c *continuation) reopenOthers(v *store.View, cs *store.ChangeSet, before []am.Sliver) error {
	if len(c.documents) == 0 {
		return nil
	}
	all, err := v.SliversOf(before[0].Slice)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		if !c.documents[s.Document] || c.called[s.URN] || s.SetupStopped == "" || !s.Live(v.Now()) {
			continue
		}
		if status, err := am.Next(s.Status, am.ActionSetup); err == nil {
			c.reopen(v, cs, s, status)
		}
	}
	return nil
}

// reopen makes the sliver wait for its steps again.
func (c *continuation) reopen(v *store.View, cs *store.ChangeSet, s *am.Sliver, status am.Status) {
	s.Status, s.Error, s.SetupStopped, s.SetupBegan, s.SetupDone = status, "", "", v.Now().UTC(), false
	if s.Desired.On {
		queueTask(cs, v, s, am.GoalSetup, c.call)
	}
	cs.PutSliver(*s)
}

// checkStages refuses steps that the provider of their node cannot carry out.
func (s *Service) checkStages(slivers []am.Sliver) error {
	for i := range slivers {
		x := &slivers[i]
		n := slices.IndexFunc(x.Setup, func(y step.Step) bool { return !y.IsPlain() })
		if n >= 0 && !s.hasStages(x.Provider) {
			return am.Errorf(am.Unsupported, "node %.80q: the testbed of %s runs only plain install and execute services, and %s, %s, is more (a stage, parameters, an operation, a script, an archive with owners, a file of the site's catalogue, user data or a disk); leave that out, or request another component", x.ClientID, x.ComponentName, x.StepName(n), x.Setup[n].Summary())
		}
	}
	return nil
}

func (s *Service) hasStages(provider string) bool {
	return s.cfg.HasStages == nil || s.cfg.HasStages(provider)
}
