package service

import (
	"patchbay/am"
	"patchbay/rspec"
)

// maxSetupBytes bounds what all nodes of a request are to install and execute: it
// is in their records, and every change to one writes it again.
const maxSetupBytes = 4 << 20

// setup is what a node is to install and execute, in the order in which it is done.
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

// boundSetup refuses a request whose nodes are to install and execute too much.
func boundSetup(req *rspec.Request) error {
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
		return am.Errorf(am.TooBig, "what the nodes are to install and execute takes %d bytes, more than %d; put scripts into an archive that is fetched over http, or ask for fewer nodes at a time", n, maxSetupBytes)
	}
	return nil
}
