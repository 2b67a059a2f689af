package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

const delegateLong = `Delegate a slice of one user to another user or tool: the owner signs a credential that
contains their own and names the receiver. The receiver may do everything with the slice
that the owner may, except delegate it again.

--to names a user or a tool of this site's trial authority, and the credential goes into
its folder. Or it names a file with any other certificate; then -o FILE is needed.`

type delegateOptions struct {
	site     siteFlag
	Slice    string
	From, To string
	Expires  string
	Output   string
	life     time.Duration // 0: as long as the delegated credential
}

func (o *delegateOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.From, "from", "", "the user with a credential for the slice")
	fs.StringVar(&o.To, "to", "", "the receiver: a user, a tool, or a file with a certificate")
	fs.StringVar(&o.Expires, "expires", "", "how long the new credential lasts (default: as long as the delegated one)")
	fs.StringVarP(&o.Output, "output", "o", "", "write the credential to this file")
}

func (o *delegateOptions) Validate(args []string) (err error) {
	if o.Slice, err = oneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.From == "" || o.To == "" {
		return errors.New("--from USER and --to RECEIVER are both needed")
	}
	if o.Expires != "" {
		o.life, err = parseLifetime(o.Expires)
	}
	return err
}

func (o *delegateOptions) Run(ctx context.Context, c console) error {
	t, unlock, err := o.site.lockTrial(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	from, to, file, err := o.delegate(t)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s may use the slice %s of %s; the credential is\n  %s\n", to.urn, o.Slice, from.URN, file)
	if to.dir != "" {
		fmt.Fprintf(c.out, "\nUse it with:\n  %s\n", display.CommandAt(t.config.Origin.File, "call", "--user", filepath.Base(to.dir), "--slice", o.Slice, "Status"))
	}
	return nil
}

// delegate writes the credential to a file. It sets o.Slice to the name as it was first spelled.
func (o *delegateOptions) delegate(t *trialSite) (from *trialUser, to receiver, file string, err error) {
	if from, err = t.existingUser(o.From); err != nil {
		return from, to, "", err
	}
	own := from.credentialFile(o.Slice)
	credential, err := site.ReadRegular(own)
	if errors.Is(err, fs.ErrNotExist) {
		return from, to, "", fmt.Errorf("%s has no credential for the slice %s; %sget one with: %s", from.Name, o.Slice, suggestNames(o.Slice, slicesIn(from.Dir)), display.CommandAt(t.config.Origin.File, "slice", o.Slice, "--owner", from.Name))
	}
	if err != nil {
		return from, to, "", err
	}
	o.Slice = strings.TrimSuffix(filepath.Base(own), "-cred.xml") // as it was first spelled
	if to, err = t.receiver(o.To); err != nil {
		return from, to, "", err
	}
	if to.urn.Equal(from.URN) && !isDelegated(credential) {
		return from, to, "", fmt.Errorf("%s already owns the slice %s; give another user or tool with --to", from.Name, o.Slice)
	}
	file = o.Output
	if file == "" {
		if file, err = to.sliceFile(o.Slice); err != nil {
			return from, to, "", err
		}
	}
	var expires time.Time
	if o.life > 0 {
		if expires, err = t.expiry(o.life, time.Now()); err != nil {
			return from, to, "", err
		}
	}
	text, err := trial.Delegate(credential, from.User, to.certificate, expires)
	if err != nil {
		return from, to, "", err
	}
	return from, to, file, site.ReplaceFile(file, text, 0o600)
}

// credentialFile ignores the case of the slice's name.
func (u *trialUser) credentialFile(name string) string {
	for _, have := range slicesIn(u.Dir) {
		if strings.EqualFold(have, name) {
			name = have
		}
	}
	return filepath.Join(u.Dir, slicesDir, name+"-cred.xml")
}

// existingUser fails if the site has no such user.
func (t *trialSite) existingUser(name string) (*trialUser, error) {
	users := filepath.Join(t.dir, site.UsersDir)
	if _, err := os.Lstat(filepath.Join(users, strings.ToLower(name))); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no user %s here; %screate it with: %s", name, suggestNames(name, userNamesIn(users)), display.CommandAt(t.config.Origin.File, "user", name))
	}
	u, _, err := t.writeUser(name, false, time.Now())
	return u, err
}

// receiver is a user or tool that gets a delegated credential.
type receiver struct {
	urn         urn.URN
	certificate []byte // PEM, with its chain
	dir         string // the folder of a user or tool of this site; "" for others
}

// receiver returns the user or tool of that name at this site. If there is none, name must
// be a file with the receiver's certificate.
func (t *trialSite) receiver(name string) (receiver, error) {
	for _, folder := range []string{site.UsersDir, toolsDir} {
		dir := filepath.Join(t.dir, folder, strings.ToLower(name))
		if folder == site.UsersDir {
			dir = folderOfUser(t.dir, name)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries { // the file name has the case of the first spelling
			if !strings.EqualFold(e.Name(), name+"-cert.pem") {
				continue
			}
			if r, err := readReceiver(filepath.Join(dir, e.Name())); err == nil {
				r.dir = dir
				return r, nil
			}
		}
	}
	r, err := readReceiver(name)
	if err != nil {
		have := append(userNamesIn(filepath.Join(t.dir, site.UsersDir)), userNamesIn(filepath.Join(t.dir, toolsDir))...)
		return r, fmt.Errorf("--to %s: there is no user or tool of that name here (%w); %sgive a file with a certificate", name, err, suggestNames(name, have))
	}
	return r, nil
}

func readReceiver(file string) (receiver, error) {
	text, err := site.ReadRegular(file)
	if err != nil {
		return receiver{}, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return receiver{}, fmt.Errorf("%s: %w", file, err)
	}
	return receiver{urn: list[0].URN, certificate: text}, nil
}

// isDelegated reports whether a credential was delegated by a user, not issued by an authority.
func isDelegated(credential []byte) bool { return bytes.Contains(credential, []byte("<parent>")) }

// sliceFile fails if the file holds a credential from an authority, which is never overwritten. It
// also fails if the receiver has no folder at this site.
func (r receiver) sliceFile(slice string) (string, error) {
	if r.dir == "" {
		return "", errors.New("the receiver has no folder here; give -o FILE for the credential")
	}
	file := filepath.Join(r.dir, slicesDir, slice+"-cred.xml")
	text, err := site.ReadRegular(file)
	if err == nil && !isDelegated(text) {
		return "", fmt.Errorf("%s already has its own credential for this slice, %s; give -o FILE for the delegated one", r.urn, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return file, nil
}

// toolsDir holds a folder for each tool of the trial authority.
const toolsDir = "tools"
