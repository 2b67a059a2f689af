package experimenter

import "patchbay/cmd/patchbay/command"

// Commands returns the commands that are for experimenters.
func Commands() []command.Command {
	call := &callOptions{}
	return []command.Command{
		{Use: "up [REQUEST]", Short: "Create an experiment, and show how to log in", Long: upLong, Options: &upOptions{}, Example: `  patchbay up --example               # two nodes on a LAN, on this host
  patchbay up lan.xml                 # the nodes of lan.xml
  patchbay up lan.xml --for 3d        # keep them for three days
  patchbay up lan.xml --slice robots  # in the slice robots
  patchbay up --print-example >lan.xml`},
		{Use: "ssh NODE [COMMAND …]", Short: "Log in to a node", Long: sshLong, Options: &sshOptions{}, Example: `  patchbay ssh server
  patchbay ssh server hostname
  patchbay ssh server.robots 'tail -f /var/log/syslog'
  patchbay ssh --print-config  # the path of ssh_config`},
		{Use: "status [SLICE …]", Short: "Show your experiments", Long: statusLong, Options: &statusOptions{}, Arguments: command.SomeOf(), Example: `  patchbay status
  patchbay status robots
  patchbay status --user alice --config mysite`},
		{Use: "extend [SLICE] TIME", Short: "Keep an experiment for longer", Long: extendLong, Options: &extendOptions{}, Arguments: (*command.Completion).OwnedSlices, Example: `  patchbay extend 2h
  patchbay extend robots 3d
  patchbay extend robots 2026-12-24T18:00:00Z`},
		{Use: "export [SLICE]", Short: "Describe the nodes of an experiment for other programs", Long: exportLong, Options: &exportOptions{}, Arguments: (*command.Completion).OwnedSlices, Example: `  patchbay export
  patchbay export robots --format ansible -o hosts.yml
  patchbay export robots --format ssh-config -o robots.conf
  patchbay export robots --format radl`},
		{Use: "down [SLICE …]", Short: "Delete the nodes of an experiment", Long: downLong, Options: &downOptions{}, Arguments: (*command.Completion).OwnedSlices, Example: `  patchbay down          # the experiments that "patchbay status" shows
  patchbay down robots   # only this one
  patchbay down --all    # also the site that "patchbay up" created`},
		{Use: "web", Short: "Open the pages of a site in a browser", Long: webLong, Options: &webOptions{}, Arguments: command.SomeOf(), Example: `  patchbay web
  patchbay web --user ./alice --print
  patchbay web --operator --config /var/lib/patchbay`},
		{Use: "share SLICE PARTNER", Short: "Share a slice and the logins on its nodes with another user", Long: shareLong, Options: &shareOptions{}, Arguments: (*command.Completion).OwnedSlices, Example: `  patchbay share first bob
  patchbay share first bob --user alice`},
		{Use: "login URL CODE", Short: "Become a member of an authority, with an invitation", Long: loginLong, Options: &loginOptions{}, Arguments: command.SomeOf(), Example: `  patchbay login https://am.example.org:8443 CODE
  patchbay login https://am.example.org:8443 CODE --dir lab
  patchbay login --dir lab --slice lab1    # new credentials
  patchbay login --dir lab --jfed            # the files for jFed`},
		{Use: "call METHOD [ARG …]", Short: "Call an aggregate manager", Long: callLong, Options: call, Arguments: call.completeArguments, Example: `  patchbay call --user alice GetVersion
  patchbay call --user alice --slice first Allocate request.xml
  patchbay call --user alice --slice first Provision --wait
  patchbay call --user alice --slice first start --wait
  patchbay call --user alice --slice first -o manifest.xml Describe
  patchbay call --url https://am.example.org:8443/am/3.0 --user ./alice ListResources`},
		{Use: "demo", Short: "Run a whole experiment, as a demonstration", Long: demoLong, Options: &demoOptions{}, Arguments: command.SomeOf(), Example: `  patchbay demo
  patchbay demo --provider simulated --keep ./example`},
	}
}
