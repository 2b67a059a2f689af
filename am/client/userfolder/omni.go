package userfolder

import (
	"fmt"
	"path/filepath"
	"strings"

	"patchbay/am/urn"
)

// OmniConfig returns an omni_config. dir is the folder of the files that it names; "" means the
// current folder.
func (t *Trial) OmniConfig(u *User, dir string) []byte {
	manager := t.URN()
	manager.Name = "cm"
	return OmniSettings{
		User: u.URN, Manager: manager.String(), URL: strings.TrimSuffix(t.URL, "/am/3.0"), Dir: dir, Keys: u.PublicKeys(),
		Authority: t.Config.TrialAuthority.Serve && t.Port() != "0",
	}.Text()
}

// OmniSettings are the content of an omni_config.
type OmniSettings struct {
	User    urn.URN // the owner of the files
	Manager string  // the URN of the aggregate
	URL     string  // https://HOST:PORT
	Dir     string  // the folder of the user's files; "" for the current folder
	Keys    string  // the file of the public SSH keys
	// Authority means that omni gets credentials from the authority at the URL. Otherwise they come
	// from files, and the key ch is not used.
	Authority bool
}

// Text returns the omni_config. It calls the user's section user-NAME, so that it cannot have the name of another section of
// omni.
func (o OmniSettings) Text() []byte {
	escape := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	file := func(name string) string { return escape(filepath.Join(o.Dir, name)) }
	about, framework := "Credentials are given as files: --usercredfile and --slicecredfile.", "type = gcf\nch = https://localhost:1"
	if o.Authority {
		about, framework = "omni gets credentials from the authority at ch.", "type = chapi\nch = "+escape(o.URL)+"/ch/2\nspeakv2 = true\nuseprojects = false"
	}
	return fmt.Appendf(nil, `# For omni, as user %[1]s of the trial authority of %[2]s.
# %[9]s

[omni]
default_cf = trial-authority
users = user-%[1]s

[trial-authority]
%[10]s
authority = %[2]s
cert = %[3]s
key = %[4]s

[user-%[1]s]
urn = %[5]s
keys = %[6]s

[aggregate_nicknames]
site = %[7]s,%[8]s/am/3.0
`, o.User.Name, o.User.Authority, file(o.User.Name+"-cert.pem"), file(o.User.Name+"-key.pem"), o.User, file(o.Keys), o.Manager, escape(o.URL), about, framework)
}

// PublicKeys returns the name of the file with the public SSH keys.
func (u *User) PublicKeys() string {
	if len(u.SSHKey) == 0 {
		return OwnKeys
	}
	return "id_ed25519.pub"
}
