package simulated

import (
	_ "embed"
	"fmt"
	"strings"

	"patchbay/am/display"
)

// Script returns the text of NAME.prov: a shell script that runs bin, the path of
// patchbay-local, as the simulated provider called name.
func Script(bin, name string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nexec %s simulated --name %s \"$@\"\n", display.ShellWord(bin), display.ShellWord(name))
}

//go:embed describe.yaml
var describeText string

//go:embed settings.yaml
var settingsText string

// DefaultDomain is the domain of the nodes' host names if the settings have no domain.
const DefaultDomain = "sim.example.org"

// SettingsFor returns the text of NAME.yaml. The text explains each setting and sets it to
// its default. Only the domain of the nodes' host names is not the default, but the given
// one, for example sim.AUTHORITY.
func SettingsFor(domain string) []byte {
	return []byte(describeText + "\n" + strings.Replace(settingsText, "domain: "+DefaultDomain, fmt.Sprintf("domain: %q", domain), 1))
}
