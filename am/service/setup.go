package service

import (
	"patchbay/am"
	"patchbay/rspec"
)

// maxSetupBytes limits the steps of all nodes of a request. Records contain the steps, and each
// change to a record writes them again.
const maxSetupBytes = 4 << 20

// setup returns the steps in the order of their execution.
func setup(n *rspec.Node) []am.Step {
	var all []am.Step
	for _, x := range n.Installs {
		all = append(all, am.Step{Kind: am.StepInstall, URL: x.URL, Path: x.Path, FileType: x.FileType})
	}
	for _, x := range n.Executes {
		all = append(all, am.Step{Kind: am.StepExecute, Shell: x.Shell, Command: x.Command})
	}
	return all
}

func limitSetup(req *rspec.Request) error {
	n := 0
	for i := range req.Nodes {
		for _, x := range req.Nodes[i].Installs {
			n += len(x.URL) + len(x.Path) + len(x.FileType)
		}
		for _, x := range req.Nodes[i].Executes {
			n += len(x.Command)
		}
	}
	if n > maxSetupBytes {
		return am.Errorf(am.TooBig, "the install and execute services of the nodes take %d bytes; the limit is %d; put scripts into an archive that is fetched over http, or request fewer nodes at a time", n, maxSetupBytes)
	}
	return nil
}
