package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"patchbay/am/display"
)

// omniConfig is an omni_config that works without a clearinghouse: credentials
// come from files, and ch is asked for nothing. The sections' names hold a
// hyphen, which a user's name cannot.
func (t *trialSite) omniConfig(u *trialUser) []byte {
	ini := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	manager := t.URN()
	manager.Name = "cm"
	return fmt.Appendf(nil, `# For omni, as user %[1]s of the trial authority of %[2]s.
# Credentials are given as files: --usercredfile and --slicecredfile.

[omni]
default_cf = trial-authority
users = user-%[1]s

[trial-authority]
type = gcf
authority = %[2]s
ch = https://localhost:1
cert = %[3]s
key = %[4]s

[user-%[1]s]
urn = %[5]s
keys = %[6]s

[aggregate_nicknames]
site = %[7]s,%[8]s
`, u.Name, t.URN().Authority, ini(u.path("cert.pem")), ini(u.path("key.pem")), u.URN, ini(filepath.Join(u.Dir, "id_ed25519.pub")), manager, ini(t.URL))
}

// omni is a command line of omni.py; slice is a file with a slice credential, or "".
func (t *trialSite) omni(u *trialUser, slice string, args ...string) string {
	line := []string{"omni.py", "-c", filepath.Join(u.Dir, "omni_config"), "-a", t.URL, "-V", "3", "--usercredfile", u.path("usercred.xml")}
	if slice != "" {
		line = append(line, "--slicecredfile", slice)
	}
	return display.ShellLine(append(line, args...))
}

// call is the same with our own client.
func (t *trialSite) call(u *trialUser, args ...string) string {
	return display.Command(append([]string{"call", "--config", t.config.Origin.File, "--user", u.Dir}, args...)...)
}
