package service

import (
	"encoding/json"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/rspec/setup"
)

// maxSetupBytes limits the steps of all nodes of a request. Records contain the steps, and each
// change to a record writes them again.
const maxSetupBytes = 4 << 20

// planSetup sets the steps of the slivers, which belong to the bound nodes in the same order.
func planSetup(bound []binder.Bound, slivers []am.Sliver) error {
	nodes := make([]setup.Node, len(slivers))
	for i := range slivers {
		x := &slivers[i]
		nodes[i] = setup.Node{ClientID: x.ClientID, Hostname: x.Hostname, SliverURN: x.URN.String(), Services: &bound[i].Node.Services}
	}
	n := 0
	for i, steps := range setup.Plan(slivers[0].Slice.String(), nodes) {
		slivers[i].Setup = steps
		text, err := json.Marshal(steps)
		if err != nil {
			return err
		}
		n += len(text)
	}
	if n > maxSetupBytes {
		return am.Errorf(am.TooBig, "the services of the nodes take %d bytes; the limit is %d; put scripts into an archive that is fetched over http, or request fewer nodes at a time", n, maxSetupBytes)
	}
	return nil
}
