package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// groups are the groups of commands, in the order in which help lists them.
var groups = []*cobra.Group{
	{ID: "experimenter", Title: "For experimenters:"},
	{ID: "site", Title: "To set up and maintain a site:"},
	{ID: "operations", Title: "To operate a site:"},
	{ID: "authority", Title: "Users and slices of the trial authority:"},
	{ID: "documents", Title: "Documents:"},
}

// helpTemplate returns the template of a command's help. It begins with the first paragraph
// of the description. The other paragraphs follow the examples.
func helpTemplate(description string) string {
	first, rest, _ := strings.Cut(description, "\n\n")
	if rest != "" {
		rest = "\n" + rest + "\n"
	}
	return first + `

Usage:
  {{.UseLine}}{{if .HasAvailableLocalFlags}} [flags]{{end}}

Examples:
{{.Example}}
` + rest + `
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
`
}

type commandHelp struct{ group, example string }

var helps = map[string]commandHelp{
	"up": {"experimenter", `  patchbay up --example               # two nodes on a LAN, on this host
  patchbay up lan.xml                 # the nodes of lan.xml
  patchbay up lan.xml --for 3d        # keep them for three days
  patchbay up lan.xml --slice robots  # in the slice robots
  patchbay up --print-example >lan.xml`},
	"ssh": {"experimenter", `  patchbay ssh server
  patchbay ssh server hostname
  patchbay ssh server.robots 'tail -f /var/log/syslog'
  patchbay ssh --print-config  # the path of ssh_config`},
	"status": {"experimenter", `  patchbay status
  patchbay status robots
  patchbay status --user alice --config mysite`},
	"extend": {"experimenter", `  patchbay extend 2h
  patchbay extend robots 3d
  patchbay extend robots 2026-12-24T18:00:00Z`},
	"export": {"experimenter", `  patchbay export
  patchbay export robots --format ansible -o hosts.yml
  patchbay export robots --format ssh-config -o robots.conf
  patchbay export robots --format radl`},
	"down": {"experimenter", `  patchbay down          # the experiments that "patchbay status" shows
  patchbay down robots   # only this one
  patchbay down --all    # also the site that "patchbay up" created`},
	"call": {"experimenter", `  patchbay call --user alice GetVersion
  patchbay call --user alice --slice first Allocate request.xml
  patchbay call --user alice --slice first Provision --wait
  patchbay call --user alice --slice first start --wait
  patchbay call --user alice --slice first -o manifest.xml Describe
  patchbay call --url https://am.example.org:8443/am/3.0 --user ./alice ListResources`},
	"demo": {"experimenter", `  patchbay demo
  patchbay demo --provider simulated --keep ./example`},

	"init": {"site", `  patchbay init mysite
  patchbay init --provider local mysite
  patchbay init --authority testbed.example.org --public-url https://am.example.org:8443 /srv/mysite`},
	"serve": {"site", `  patchbay serve --config mysite
  patchbay serve --config mysite --listen :9443`},
	"check": {"site", `  patchbay check --config mysite
  patchbay check request.xml
  patchbay check --config mysite --user alice`},
	"reload": {"site", `  patchbay reload --config mysite`},
	"backup": {"site", `  patchbay backup --config mysite /backups/monday.db`},
	"restore": {"site", `  patchbay restore --config mysite /backups/monday.db
  patchbay restore --config mysite --yes /backups/monday.db`},
	"move": {"site", `  patchbay move --config copy-of-mysite`},

	"slices": {"operations", `  patchbay slices
  patchbay slices --ends-before 24h`},
	"slivers": {"operations", `  patchbay slivers
  patchbay slivers first --wide
  patchbay slivers --state failed`},
	"nodes": {"operations", `  patchbay nodes
  patchbay nodes pc1..pc4
  patchbay nodes --state drained --json`},
	"tasks": {"operations", `  patchbay tasks
  patchbay tasks --provider local`},
	"journal": {"operations", `  patchbay journal
  patchbay journal first --since 2h
  patchbay journal --event Allocate --user alice`},
	"usage": {"operations", `  patchbay usage
  patchbay usage --from 2030-01-01T00:00:00Z --until 2030-02-01T00:00:00Z --csv`},
	"manifest": {"operations", `  patchbay manifest first`},
	"release": {"operations", `  patchbay release first
  patchbay release first/server --reason 'node is broken'`},
	"renew": {"operations", `  patchbay renew first --for 3d
  patchbay renew first --until 2030-01-31T12:00:00Z`},
	"drain": {"operations", `  patchbay drain pc3 --reason 'disk is failing'
  patchbay drain pc1..pc4
  patchbay drain`},
	"undrain": {"operations", `  patchbay undrain pc1..pc4`},
	"maintenance": {"operations", `  patchbay maintenance pc1..pc4 --from 2030-01-31T08:00:00Z --for 4h --reason 'new disks'
  patchbay maintenance --all --for 2h --reason 'power cut'
  patchbay maintenance
  patchbay maintenance --lift 1`},
	"lockdown": {"operations", `  patchbay lockdown --reason 'moving to another building until Friday'
  patchbay lockdown --lift`},
	"thaw": {"operations", `  patchbay thaw
  patchbay thaw first --extend 2h`},
	"who": {"operations", `  patchbay who 192.0.2.7
  patchbay who 192.0.2.7:20001 --at 2030-01-31T12:00:00Z`},

	"probe": {"documents", `  patchbay probe https://am.example.org:8443/am/3.0 --user alice --slice empty
  patchbay probe https://am.example.org:8443 --user lab       # a folder of patchbay login
  patchbay probe https://am.example.org:8443 --user lab --read-only --json
  patchbay probe --authority https://am.example.org:8443 --user lab`},
	"login": {"experimenter", `  patchbay login https://am.example.org:8443 CODE
  patchbay login https://am.example.org:8443 CODE --dir lab
  patchbay login --dir lab --slice lab1    # new credentials
  patchbay login --dir lab --jfed            # the files for jFed`},
	"authority": {"authority", `  patchbay authority members
  patchbay authority invite carol
  patchbay authority slices
  patchbay authority role lab1 carol ADMIN
  patchbay authority project course --lead carol
  patchbay authority remove carol`},
	"user": {"authority", `  patchbay user alice
  patchbay user alice --renew`},
	"slice": {"authority", `  patchbay slice first --owner alice
  patchbay slice first --owner alice --expires 90d`},
	"share": {"experimenter", `  patchbay share first bob
  patchbay share first bob --user alice`},
	"delegate": {"authority", `  patchbay delegate first --from alice --to bob`},
	"tool": {"authority", `  patchbay tool portal
  patchbay tool portal --for alice`},

	"guide": {"documents", `  patchbay guide
  patchbay guide experimenter`},
	"compile": {"documents", `  patchbay compile cluster.radl
  patchbay compile cluster.radl --set NumNodes=3 -o request.xml
  patchbay compile cluster.radl --against mysite/inventory.yaml
  patchbay compile more.radl --with cluster.radl`},
	"draw": {"documents", `  patchbay draw request.xml
  patchbay draw --svg request.svg request.xml`},
}

const patternsLong = `The syntax of PATTERN and TIME in commands that list.

A PATTERN is a name or a URN, in which * stands for any text and ? for one character. A
name without * and ? must exist. Separate several patterns by spaces or commas. Components
may be ranges such as pc1..pc4. Slivers are named SLICE/CLIENT_ID.

A TIME is written 2030-01-31T12:00:00Z, with its zone, or is a duration from now such as
2h or 3d. For --since, --from and --until of lists it is a duration before now. All times
are printed in UTC.`
