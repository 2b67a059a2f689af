package document

import "patchbay/cmd/patchbay/command"

// Commands returns the commands that read documents or judge aggregates.
func Commands() []command.Command {
	return []command.Command{
		{Use: "probe [URL]", Short: "Check what an aggregate manager keeps of its specifications", Long: probeLong, Options: &probeOptions{}, Arguments: command.SomeOf(), Example: `  patchbay probe https://am.example.org:8443/am/3.0 --user alice --slice empty
  patchbay probe https://am.example.org:8443 --user lab       # a folder of patchbay login
  patchbay probe https://am.example.org:8443 --user lab --read-only --json
  patchbay probe --authority https://am.example.org:8443 --user lab`},
		{Use: "compile FILE", Short: "Compile RADL or a blueprint to a request", Long: compileLong, Options: &compileOptions{}, Example: `  patchbay compile cluster.radl
  patchbay compile cluster.radl --set NumNodes=3 -o request.xml
  patchbay compile cluster.radl --against mysite/inventory.yaml
  patchbay compile more.radl --with cluster.radl`},
		{Use: "draw FILE", Short: "Draw a request, a manifest or an advertisement", Long: drawLong, Options: &drawOptions{}, Example: `  patchbay draw request.xml
  patchbay draw --svg request.svg request.xml`},
	}
}
