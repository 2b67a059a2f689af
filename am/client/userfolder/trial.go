package userfolder

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

// Trial is the trial authority of a site on this host, with the folders of its users.
type Trial struct {
	*site.AuthorityClient
	Config *site.Config // of the site
	Dir    string       // of the site
	URL    string       // for API version 3
}

// OpenTrial opens the trial authority of a site. The error wraps fs.ErrNotExist if there is none.
func OpenTrial(ctx context.Context, c *site.Config) (*Trial, error) {
	dir := filepath.Dir(c.Origin.File)
	a, err := site.ConnectAuthority(ctx, c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noTrial{fmt.Sprintf("this site has no trial authority in %s; users come from the authorities in %s", filepath.Join(dir, site.AuthorityDir), c.Trusted)}
	}
	if err != nil {
		return nil, err
	}
	return &Trial{a, c, dir, PublicURL(ctx, c) + "/am/3.0"}, nil
}

type noTrial struct{ text string }

func (e noTrial) Error() string { return e.text }

func (e noTrial) Unwrap() error { return fs.ErrNotExist }

// User is a user of a trial authority.
type User struct {
	trial.User
	Name, Dir string // Dir is the user's folder
}

// File returns the name of one of the user's files.
func (u *User) File(suffix string) string { return u.Name + "-" + suffix }

// Path returns the path of File.
func (u *User) Path(suffix string) string { return filepath.Join(u.Dir, u.File(suffix)) }

// OwnKeys is the name of the file with the public SSH keys of a user without a key pair from
// the authority.
const OwnKeys = "id_own.pub"

// WriteUser is WriteUserWithKeys without keys.
func (t *Trial) WriteUser(name string, renew bool, now time.Time) (_ *User, wrote bool, err error) {
	return t.WriteUserWithKeys(name, nil, renew, now)
}

// WriteUserWithKeys writes all files for a new user, or if renew is true. Otherwise it writes
// missing files, and changed files about the site or the SSH keys. If keys is not empty, it
// replaces the user's SSH keys.
func (t *Trial) WriteUserWithKeys(name string, keys []byte, renew bool, now time.Time) (_ *User, wrote bool, err error) {
	x, err := t.UserWithKeys(name, keys, now)
	if err != nil {
		return nil, false, err
	}
	name = x.URN.Name // upper and lower case as in the first command for this user
	u := &User{User: x, Name: name, Dir: Path(t.Dir, name)}
	follow, err := t.aggregateFiles() // files that are rewritten if their content has changed
	if err != nil {
		return nil, false, err
	}
	hadKeyPair := !FileExists(filepath.Join(u.Dir, OwnKeys)) // also true for a new user
	config := site.File{Name: "omni_config", Content: t.OmniConfig(u, u.Dir), Mode: 0o644}
	all := []site.File{ // that are written if they are missing, or renew is true
		{Name: u.File("cert.pem"), Content: x.Certificate, Mode: 0o644},
		{Name: u.File("key.pem"), Content: x.Key, Mode: 0o600},
		{Name: u.File("usercred.xml"), Content: x.Credential, Mode: 0o600},
	}
	if len(x.SSHKey) > 0 {
		all = append(all, site.File{Name: "id_ed25519", Content: x.SSHKey, Mode: 0o600}, site.File{Name: "id_ed25519.pub", Content: x.SSHPublicKey, Mode: 0o644})
	} else {
		follow = append(follow, site.File{Name: OwnKeys, Content: x.SSHPublicKey, Mode: 0o644})
		if hadKeyPair { // the present omni_config names the key pair that is removed below
			follow = append(follow, config)
		}
	}
	all = append(all, config)
	var files []site.File
	for _, f := range all {
		_, err := os.Lstat(filepath.Join(u.Dir, f.Name))
		if renew || errors.Is(err, fs.ErrNotExist) {
			files = append(files, f)
		} else if err != nil {
			return nil, false, err
		}
	}
	for _, f := range follow {
		if have, err := site.ReadRegular(filepath.Join(u.Dir, f.Name)); err != nil || !bytes.Equal(have, f.Content) {
			files = append(files, f)
		}
	}
	if err := site.WriteFiles(u.Dir, files); err != nil {
		return nil, false, err
	}
	if len(x.SSHKey) > 0 {
		return u, len(files) > 0, nil
	}
	for _, name := range []string{"id_ed25519", "id_ed25519.pub"} {
		if err := RemoveFile(filepath.Join(u.Dir, name)); err != nil {
			return nil, false, err
		}
	}
	return u, len(files) > 0, nil
}

// ServerCAFile is the file in a user's folder with the certificates of the server.
const ServerCAFile = "server-ca.pem"

// Port returns "0" if the server chooses the Port.
func (t *Trial) Port() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Port()
}

// aggregateFiles returns aggregate.yaml and, if the server's certificates are self-signed, a file
// with these certificates. If the server chooses its port, the URL is unknown, and aggregateFiles
// returns no files.
func (t *Trial) aggregateFiles() ([]site.File, error) {
	if t.Port() == "0" {
		return nil, nil
	}
	text := fmt.Appendf(nil, "# The URL of the aggregate manager, and the file with its certificates.\nurl: %s\n", t.URL)
	if t.Config.TrialAuthority.Serve {
		text = fmt.Appendf(text, "# The authority, where \"patchbay up\" and \"patchbay login\" get credentials.\nauthority: %s\n", strings.TrimSuffix(t.URL, "/am/3.0"))
	}
	ca, err := t.serverCA()
	if err != nil {
		return nil, err
	}
	if ca == nil {
		return []site.File{{Name: AggregateName, Content: text, Mode: 0o644}}, nil
	}
	return []site.File{{Name: AggregateName, Content: fmt.Appendf(text, "ca: %s\n", ServerCAFile), Mode: 0o644}, {Name: ServerCAFile, Content: ca, Mode: 0o644}}, nil
}

// serverCA returns nil unless all certificates of the server are self-signed.
func (t *Trial) serverCA() ([]byte, error) {
	var all []byte
	for _, pair := range t.Config.Keys {
		text, err := site.ReadRegular(pair.Certificate)
		if err != nil {
			return nil, err
		}
		list, err := cert.ParsePEM(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pair.Certificate, err)
		}
		c := list[0]
		if c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil {
			return nil, nil
		}
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return all, nil
}

// CredentialFile ignores the case of the slice's name.
func (u *User) CredentialFile(name string) string {
	for _, have := range Slices(u.Dir) {
		if strings.EqualFold(have, name) {
			name = have
		}
	}
	return filepath.Join(u.Dir, SlicesDir, name+"-cred.xml")
}

// ExistingUser fails if the site has no such user.
func (t *Trial) ExistingUser(name string) (*User, error) {
	users := filepath.Join(t.Dir, site.UsersDir)
	if _, err := os.Lstat(filepath.Join(users, strings.ToLower(name))); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no user %s here; %screate it with: %s", name, SuggestNames(name, Users(users)), display.CommandAt(t.Config.Origin.File, "user", name))
	}
	u, _, err := t.WriteUser(name, false, time.Now())
	return u, err
}

// ToolsDir holds a folder for each tool of the trial authority.
const ToolsDir = "tools"

// WriteSlice writes a new credential of a slice into the folder of its owner. It returns the
// owner and the file.
func (t *Trial) WriteSlice(name, owner string, expires, now time.Time) (authority.Issued, *User, string, error) {
	u, err := t.ExistingUser(owner)
	if err != nil {
		return authority.Issued{}, nil, "", err
	}
	s, err := t.Slice(name, owner, expires)
	if err != nil {
		return s, nil, "", err
	}
	file := u.CredentialFile(s.URN.Name)
	return s, u, file, site.ReplaceFile(file, s.Credential, 0o600)
}

// OtherOwner returns the name of another user that has a credential for the slice called name.
// It prefers a user whose credential is not delegated. It returns "" if there is no other user,
// or if user has a credential that is not delegated.
func (t *Trial) OtherOwner(name, user string) (receiver string) {
	users := filepath.Join(t.Dir, site.UsersDir)
	has := func(user string) (hasOne, isOwn bool) {
		dir := Path(t.Dir, user)
		for _, s := range Slices(dir) {
			if strings.EqualFold(s, name) {
				text, err := site.ReadRegular(filepath.Join(dir, SlicesDir, s+"-cred.xml"))
				return true, err != nil || !IsDelegated(text)
			}
		}
		return false, false
	}
	if _, isOwn := has(user); isOwn {
		return ""
	}
	entries, _ := os.ReadDir(users) // a site without users has no slices
	for _, e := range entries {
		switch hasOne, isOwn := has(e.Name()); {
		case isOwn:
			return e.Name()
		case hasOne && e.Name() != user:
			receiver = e.Name()
		}
	}
	return receiver
}

// ReadSSHKeys reads a file with public keys.
func ReadSSHKeys(file string) ([]byte, error) {
	text, err := site.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", file)
	}
	if err != nil {
		return nil, err
	}
	keys, err := trial.ParseSSHKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

// ExpiryOf returns the end of a credential that lasts so long from now. It fails if the trial
// authority's certificate ends before.
func (t *Trial) ExpiryOf(life time.Duration, now time.Time) (time.Time, error) {
	if longest := t.Expires().Sub(now); life >= longest {
		return time.Time{}, fmt.Errorf("--expires is too long: the trial authority ends on %s, so the longest is %dd",
			t.Expires().Format(time.DateOnly), max(0, longest-time.Minute)/(24*time.Hour))
	}
	return now.Add(life), nil
}
