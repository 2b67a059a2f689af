package session

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/ownsite"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

// Caller has the identity and the credentials for calls to an aggregate.
type Caller struct {
	CertFile, KeyFile string // of the client certificate
	Credentials       []Credential
	SSHKeys           []string      // public keys
	Logins            []client.User // other users with accounts
	SliceURN          string        // of the slice that the calls concern, or ""
	// Folders are the user's folders, and Identity is the file of a private SSH key in one of them.
	Folders  []string
	Identity string
	// SpeakingFor is the user that a tool speaks for, or "".
	SpeakingFor string
}

// Credential holds a document and values read from it. Only the server verifies the
// document.
type Credential struct {
	Text, file    string
	abac          bool
	owner, Target string // URNs; an ABAC credential has none
	Kind          string // of the target: user, slice, …
	Expires       time.Time
	// always is true for a credential that every call sends, even a call about another
	// target.
	always bool
}

// ReadCaller reads the certificate, key, credentials and SSH keys of a user from folders and files,
// in any order. It sets the slice unless that is ""; see SetSlice.
func ReadCaller(paths []string, slice string) (*Caller, error) {
	me := &Caller{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("--user: %w; %screate a user with: %s", err, userfolder.SuggestNames(filepath.Base(p), userfolder.Users(filepath.Dir(p))), commandAbout(p, "user", "NAME"))
		}
		if !info.IsDir() {
			if err := me.add(p); err != nil {
				return nil, fmt.Errorf("--user: %w", err)
			}
			continue
		}
		me.Folders = append(me.Folders, p)
		for _, pattern := range []string{"*-cert.pem", "*-key.pem", "*-usercred.xml", "id_*.pub"} {
			for _, f := range userfolder.Glob(p, pattern) {
				if err := me.add(f); err != nil {
					return nil, fmt.Errorf("--user %s: %w", p, err)
				}
			}
		}
		if me.CertFile == "" {
			return nil, fmt.Errorf("--user %s: the folder holds no NAME-cert.pem; create it with: %s", p, commandAbout(p, "user", "NAME"))
		}
	}
	if slice != "" {
		if err := me.SetSlice(slice); err != nil {
			return nil, fmt.Errorf("--slice: %w", err)
		}
	}
	return me, nil
}

// add reads a certificate, key, credential or SSH public key. The content decides which.
func (me *Caller) add(file string) error {
	text, err := site.ReadRegular(file)
	if err != nil {
		return err
	}
	known := false
	if bytes.Contains(text, []byte("BEGIN CERTIFICATE")) && !bytes.Contains(text, []byte("signed-credential")) {
		me.CertFile, known = file, true
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) && !bytes.Contains(text, []byte("BEGIN OPENSSH")) {
		me.KeyFile, known = file, true
	}
	if c, err := ReadCredential(text); err == nil {
		c.file = file
		me.Credentials, known = append(me.Credentials, c), true
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ssh-") || strings.HasPrefix(line, "ecdsa-sha2-") {
			me.SSHKeys, known = append(me.SSHKeys, strings.TrimSpace(line)), true
			if private := strings.TrimSuffix(file, ".pub"); me.Identity == "" && private != file && userfolder.FileExists(private) {
				me.Identity = private
			}
		}
	}
	if !known {
		return fmt.Errorf("%s is no certificate, key, credential or SSH public key", file)
	}
	return nil
}

// SetSlice sets the slice, and adds its credential from a user's folder or a file. The parameter
// slice is a URN, the name of a slice, or the name of a file with a credential. Only a URN needs
// no credential.
func (me *Caller) SetSlice(slice string) error {
	if u, err := urn.Parse(slice); err == nil {
		me.SliceURN = slice
		if u.Type != urn.Slice {
			return fmt.Errorf("%s is not the URN of a slice", slice)
		}
		for _, dir := range me.Folders {
			file := filepath.Join(dir, userfolder.SlicesDir, u.Name+"-cred.xml")
			if err := me.addSliceCredential(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	var candidates []string
	if slice == filepath.Base(slice) {
		for _, dir := range me.Folders {
			candidates = append(candidates, filepath.Join(dir, userfolder.SlicesDir, slice+"-cred.xml"))
		}
	}
	if len(candidates) == 0 || userfolder.FileExists(slice) {
		candidates = append(candidates, slice)
	}
	var missing []string
	for _, file := range candidates {
		err := me.addSliceCredential(file)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, file)
	}
	return me.noSlice(slice, missing)
}

// noSlice returns the error for a slice without a credential in any of the files.
func (me *Caller) noSlice(slice string, files []string) error {
	about, owner := "", "USER"
	if len(me.Folders) > 0 {
		about, owner = me.Folders[0], filepath.Base(filepath.Clean(me.Folders[0]))
	}
	if u := me.Users(); len(u) > 0 {
		if x, err := urn.Parse(u[0].URN); err == nil {
			owner = x.Name
		}
	}
	name, looked := strings.TrimSuffix(filepath.Base(slice), "-cred.xml"), strings.Join(files, " or ")
	if me.isTool() {
		return fmt.Errorf("there is no slice %q; a tool works in the slice of a user: give the file with the user's credential, such as %s, or delegate the slice with: %s (looked for %s)",
			slice, filepath.Join(about, "..", "..", site.UsersDir, "USER", userfolder.SlicesDir, name+"-cred.xml"),
			commandAbout(about, "delegate", name, "--from", "USER", "--to", filepath.Base(about)), looked)
	}
	have := userfolder.Slices(about)
	if near := display.Suggest(name, have); near != "" {
		return fmt.Errorf("there is no slice %q; did you mean %s? (looked for %s)", slice, near, looked)
	}
	return fmt.Errorf("there is no slice %q; %screate it with: %s (looked for %s)", slice, userfolder.SuggestNames(name, have), commandAbout(about, "slice", name, "--owner", owner), looked)
}

// SetOnlySlice sets the slice if the user's folders hold credentials for one slice, or only one
// of the slices is an experiment of "patchbay up". Otherwise it fails for several slices.
func (me *Caller) SetOnlySlice() error {
	var names, experiments []string
	for _, dir := range me.Folders {
		names = append(names, userfolder.Slices(dir)...)
		experiments = append(experiments, userfolder.Names(filepath.Join(dir, "slices"), "*.request.xml", ".request.xml")...)
	}
	if len(experiments) == 1 {
		names = experiments
	}
	slices.Sort(names)
	switch names = slices.Compact(names); len(names) {
	case 0:
		return nil
	case 1:
		return me.SetSlice(names[0])
	}
	return fmt.Errorf("several slices could be meant; add --slice NAME: %s", userfolder.JoinSome(names))
}

// isTool reports whether the certificate belongs to a tool, which owns no slice.
func (me *Caller) isTool() bool {
	text, err := site.ReadRegular(me.CertFile)
	if err != nil {
		return false
	}
	list, err := cert.ParsePEM(text)
	return err == nil && list[0].URN.Type == urn.Tool
}

// addSliceCredential adds the credential in a file, and sets the slice to its target. It
// fails if the target is not a slice, or if another slice was set before.
func (me *Caller) addSliceCredential(file string) error {
	text, err := site.ReadRegular(file)
	if err != nil {
		return err
	}
	c, err := ReadCredential(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s is no slice credential: %w", file, err)
	case c.Kind != urn.Slice:
		return fmt.Errorf("%s is not a slice credential; it is over %s", file, c.Target)
	case me.SliceURN != "" && !strings.EqualFold(me.SliceURN, c.Target):
		return fmt.Errorf("%s is a credential over another slice, %s", file, c.Target)
	}
	c.file = file
	me.Credentials = append(me.Credentials, c)
	me.SliceURN = c.Target
	return nil
}

// AddCredential adds a credential for every call, such as a speaks-for credential.
func (me *Caller) AddCredential(file string) error {
	text, err := site.ReadRegular(file)
	if err != nil {
		return err
	}
	c, err := ReadCredential(text)
	if err != nil {
		return fmt.Errorf("%s is no credential: %w", file, err)
	}
	c.file, c.always = file, true
	me.Credentials = append(me.Credentials, c)
	return nil
}

// IsExpired reports whether the credential ends at a time or before it.
func (c *Credential) IsExpired(now time.Time) bool {
	return !c.Expires.IsZero() && !now.Before(c.Expires)
}

// Remedy returns the command line that creates a new credential of the same owner. If root
// runs the user's own site, the command is status as root, which renews all credentials.
// Remedy returns "" if the owner's trial authority is not on this host.
func (c *Credential) Remedy(flags ...string) string {
	target, _ := urn.Parse(c.Target)
	owner, err := urn.Parse(c.owner)
	at := userfolder.SiteOf(c.file)
	switch {
	case ownsite.RootsSiteOf(c.file) != "":
		return display.AsRoot(display.Program, "status")
	case c.abac || err != nil || at == "" || !userfolder.FileExists(filepath.Join(filepath.Dir(at), site.AuthorityDir)):
		return ""
	case c.Kind == urn.Slice:
		return display.CommandAt(at, append([]string{"slice", target.Name, "--owner", owner.Name}, flags...)...)
	}
	return display.CommandAt(at, "user", owner.Name, "--renew")
}

// Expired returns a line with the remedy for each Expired credential. The parameter
// reported is true if the aggregate's answer has already named the expiry. Then the lines
// are only commands, and a credential without a command has no line.
func (me *Caller) Expired(now time.Time, reported bool) []string {
	var list []string
	for i := range me.Credentials {
		c := &me.Credentials[i]
		if !c.IsExpired(now) {
			continue
		}
		remedy, what := c.Remedy(), "credential over "+c.Target
		switch {
		case remedy != "" && reported:
			list = append(list, "create a new credential with: "+remedy)
			continue
		case reported:
			continue
		case remedy != "":
			remedy = "create a new one with: " + remedy
		case c.abac:
			what, remedy = "ABAC credential in "+c.file, "ask its signer for a new one"
		default:
			remedy = "get a new one from its authority"
		}
		list = append(list, fmt.Sprintf("the %s expired on %s; %s", what, display.Time(c.Expires), remedy))
	}
	return list
}

func commandAbout(path string, args ...string) string {
	if site := userfolder.SiteOf(path); site != "" {
		return display.CommandAt(site, args...)
	}
	if root := ownsite.RootsSiteOf(path); root != "" {
		return display.AsRoot(append(append([]string{display.Program}, args...), "--config", root)...)
	}
	return display.Command(args...)
}

// ForSlice returns slice credentials, ABAC credentials, and credentials for every call. If
// no credential is over the slice, it returns all credentials.
func (me *Caller) ForSlice() []client.Credential {
	overSlice := func(c Credential) bool { return strings.EqualFold(c.Target, me.SliceURN) }
	if !slices.ContainsFunc(me.Credentials, overSlice) {
		return me.ForUser()
	}
	return wireCredentials(slices.DeleteFunc(slices.Clone(me.Credentials), func(c Credential) bool { return !overSlice(c) && !c.always && !c.abac }))
}

// ForUser returns all credentials.
func (me *Caller) ForUser() []client.Credential { return wireCredentials(me.Credentials) }

func wireCredentials(list []Credential) []client.Credential {
	out := make([]client.Credential, len(list))
	for i, c := range list {
		out[i] = client.Credential{Text: c.Text}
		if c.abac {
			out[i].Type, out[i].Version = "geni_abac", "1"
		}
	}
	return out
}

// Users returns the Users that get accounts: the owner and the Users of --login. The owner
// has the caller's SSH keys.
func (me *Caller) Users() []client.User {
	who := me.Owner()
	if len(me.SSHKeys) == 0 || who == "" {
		return me.Logins
	}
	return append([]client.User{{URN: who, Keys: me.SSHKeys}}, me.Logins...)
}

// Owner returns the URN of the user that a tool speaks for. Without a tool, it returns the
// Owner of the caller's credentials, or "".
func (me *Caller) Owner() string {
	who := me.SpeakingFor
	for _, c := range me.Credentials {
		who = cmp.Or(who, c.owner)
	}
	return who
}

// Name returns the Name in the owner's URN, or "" without an owner.
func (me *Caller) Name() string {
	u, err := urn.Parse(me.Owner())
	if err != nil {
		return ""
	}
	return u.Name
}

// IsDelegate reports whether another user has delegated the slice to the caller.
func (me *Caller) IsDelegate() bool {
	return slices.ContainsFunc(me.Credentials, func(c Credential) bool {
		return strings.EqualFold(c.Target, me.SliceURN) && userfolder.IsDelegated([]byte(c.Text))
	})
}

// AccountOf returns the account that Patchbay gives to a user, unless another user of the slice has it.
func AccountOf(user string) string {
	if user == "" {
		return ""
	}
	return am.LoginName(urn.URN{Name: user}, func(string) bool { return false })
}

// NoAccount is shown instead of a login of another user.
func NoAccount(account string) string { return "(no account of " + account + " on the node)" }

// ReadCredential reads the owner, target and expiry of a credential. It does not verify the
// credential.
func ReadCredential(text []byte) (Credential, error) {
	var doc struct {
		XMLName    xml.Name `xml:"signed-credential"`
		Credential []struct {
			Type    string `xml:"type"`
			Owner   string `xml:"owner_urn"`
			Target  string `xml:"target_urn"`
			Expires string `xml:"expires"`
		} `xml:"credential"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		return Credential{}, err
	}
	if len(doc.Credential) == 0 {
		return Credential{}, errors.New("the document has no credential")
	}
	d := doc.Credential[0]
	c := Credential{Text: string(text), abac: strings.EqualFold(strings.TrimSpace(d.Type), "abac")}
	if !c.abac {
		target, err := urn.Parse(strings.TrimSpace(d.Target))
		if err != nil {
			return Credential{}, err
		}
		c.owner, c.Target, c.Kind = strings.TrimSpace(d.Owner), target.String(), target.Type
	}
	c.Expires, _ = display.ParseExpires(d.Expires) // zero without a time
	return c, nil
}

// UserFromFolder returns the user of a folder that "patchbay user" created.
func UserFromFolder(dir string) (client.User, error) {
	files := userfolder.Glob(dir, "*-cert.pem")
	if len(files) == 0 {
		return client.User{}, fmt.Errorf("the folder %s holds no NAME-cert.pem; create it with: %s", dir, display.Command("user", "NAME"))
	}
	text, err := site.ReadRegular(files[0])
	if err != nil {
		return client.User{}, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return client.User{}, fmt.Errorf("%s: %w", files[0], err)
	}
	u := client.User{URN: list[0].URN.String()}
	for _, f := range userfolder.Glob(dir, "id_*.pub") {
		keys, err := userfolder.ReadSSHKeys(f)
		if err != nil {
			return client.User{}, err
		}
		u.Keys = append(u.Keys, strings.Split(strings.TrimSpace(string(keys)), "\n")...)
	}
	if len(u.Keys) == 0 {
		return client.User{}, fmt.Errorf("the folder %s holds no public SSH key, id_….pub", dir)
	}
	return u, nil
}
