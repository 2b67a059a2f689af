package testbed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
	"patchbay/rspec/step"
)

// changeInPlace changes the interfaces and the steps of a node that exists, and returns the changes. Steps
// that are the same keep their results. The journal, the interfaces and the links change before the record
// is saved: if that fails, the record still has the old ChangeSerial, so a repeated request does the rest.
// nc.mu is held.
func (nc *nodeController) changeInPlace(next *desired, items *[]string, noop bool) (object, error) {
	steps, err := parseSteps(items)
	if err == nil {
		err = nc.t.checkCloudInit(steps, next.imageName())
	}
	if err != nil {
		return nil, err
	}
	ifaces, err := parseInterfaces(next.Interfaces)
	if err != nil {
		return nil, provider.Refuse(provider.Failed, "%v", err)
	}
	change := changesBetween(&nc.rec.Desired, next)
	if change == nil || noop {
		return change, nil
	}
	number, err := nc.replaceSteps(steps, next.stage())
	if err != nil {
		return nil, err
	}
	nc.rec.Desired.SetupStage = next.SetupStage // the journal has it, so changeDesired must not set it again
	nc.rec.Steps, nc.rec.Names = number, nc.namesFor(ifaces)
	next.Interfaces = nc.setInterfaces(ifaces, nc.rec.Names)
	nc.t.changeNetwork(nc, next.SliceURN)
	return change, nc.changeDesired(*next)
}

// replaceSteps makes steps the setup of the node, and stage its last allowed stage. It saves the steps that
// are new in the file of steps, and then the journal. It returns the number of all steps that the node ever
// had. It refuses new disks.
func (nc *nodeController) replaceSteps(steps []setup.Step, stage int) (number int, err error) {
	number = len(nc.steps.Journal().Steps)
	before, err := nc.currentSteps()
	if err != nil {
		return number, fmt.Errorf("cannot read the setup: %w", err)
	}
	from := step.Keep(texts(before), texts(steps)) // for each step its index in before, or -1 for a new one
	var added []setup.Step
	for i, was := range from {
		if was < 0 {
			if steps[i].Kind == step.Disk {
				return number, provider.Refuse(provider.Unsupported, "a disk cannot be added to a node that exists; remove the node first")
			}
			added = append(added, steps[i])
		}
	}
	isSameSetup := len(added) == 0 && len(before) == len(steps) && slices.IsSorted(from)
	if isSameSetup && (len(steps) == 0 || stage == nc.steps.Journal().Stage) {
		return number, nil
	}
	if len(added) > 0 {
		all, err := nc.readSteps()
		if err == nil {
			err = nc.t.write(nc.dir(), stepsFile, append(all[:min(len(all), number)], added...))
		}
		if err != nil {
			return number, err
		}
	}
	err = nc.steps.ChangeSteps(from, added, stage)
	return len(nc.steps.Journal().Steps), err
}

// texts returns each step as text.
func texts(steps []setup.Step) (list []string) {
	for i := range steps {
		b, _ := json.Marshal(&steps[i]) // cannot fail: texts and numbers
		list = append(list, string(b))
	}
	return list
}

// namesFor returns the names of the interfaces in the node. An interface that stays as it is on its
// link keeps its name; any other gets one that the node does not use.
func (nc *nodeController) namesFor(ifaces []iface) map[string]string {
	names, used := map[string]string{}, map[string]bool{}
	was := nc.interfaces()
	for i := range was {
		used[was[i].name] = true
	}
	for i := range ifaces {
		f := &ifaces[i]
		for k := range was {
			if w := &was[k]; w.clientID == f.clientID && w.link == f.link && slices.Equal(w.addresses, f.addresses) && !w.control {
				names[f.clientID] = w.name
			}
		}
		for n := 1; names[f.clientID] == "" && !f.control; n++ {
			if name := "eth" + strconv.Itoa(n); !used[name] {
				names[f.clientID], used[name] = name, true
			}
		}
	}
	return names
}

// changeNetwork plans the links of a node again whose interfaces have changed, and rebuilds those that
// exist. nc.mu is held.
func (t *Testbed) changeNetwork(nc *nodeController, urn string) {
	if nc.network() == nil {
		t.mu.Lock()
		t.joinNetwork(nc, urn)
		t.mu.Unlock()
	}
	if n := nc.network(); n != nil {
		n.mu.Lock()
		n.planned = nil
		n.mu.Unlock()
		n.rebuildAfter(t.peerUpdateDelay)
	}
}
