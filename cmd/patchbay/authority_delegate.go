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

const delegateLong = `Hand a slice of one user on to somebody else, as any client could: the first
user signs a credential that holds its own and names the second. Whoever gets it
may do with the slice what its owner may, but not hand it on again.

--to names a user or a tool of this site's trial authority, who finds the
credential in its own folder, or a file with anybody's certificate; then -o says
where the credential is to go.`

type delegateOptions struct {
	site     siteFlag
	Slice    string
	From, To string
	Expires  string
	Output   string
	life     time.Duration // 0 for as long as the credential itself
}

func (o *delegateOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.From, "from", "", "the user who has a credential for the slice")
	fs.StringVar(&o.To, "to", "", "the user or tool who is to get one, or a file with its certificate")
	fs.StringVar(&o.Expires, "expires", "", "how long it lasts (default: as long as the credential that is handed on)")
	fs.StringVarP(&o.Output, "output", "o", "", "write the credential to this file")
}

func (o *delegateOptions) Validate(args []string) (err error) {
	if o.Slice, err = oneArgument(args, "the slice's name"); err != nil {
		return err
	}
	if o.From == "" || o.To == "" {
		return errors.New("--from USER and --to WHO are both needed")
	}
	if o.Expires != "" {
		o.life, err = parseLifetime(o.Expires)
	}
	return err
}

func (o *delegateOptions) Run(ctx context.Context, c console) error {
	t, unlock, err := o.site.trial(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	from, err := t.existing(o.From)
	if err != nil {
		return err
	}
	own := from.slice(o.Slice)
	credential, err := site.ReadRegular(own)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no credential for the slice %s; %sget one with: %s", from.Name, o.Slice, instead(o.Slice, slicesIn(from.Dir)), display.CommandAt(t.config.Origin.File, "slice", o.Slice, "--owner", from.Name))
	}
	if err != nil {
		return err
	}
	o.Slice = strings.TrimSuffix(filepath.Base(own), "-cred.xml") // as it was first spelled
	to, err := t.receiver(o.To)
	if err != nil {
		return err
	}
	file := o.Output
	if file == "" {
		if file, err = to.sliceFile(o.Slice); err != nil {
			return err
		}
	}
	var expires time.Time
	if o.life > 0 {
		if expires, err = t.until(o.life, time.Now()); err != nil {
			return err
		}
	}
	text, err := trial.Delegate(credential, from.User, to.certificate, expires)
	if err != nil {
		return err
	}
	if err := site.ReplaceFile(file, text, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s may use the slice %s of %s; the credential is\n  %s\n", to.urn, o.Slice, from.URN, file)
	if to.dir != "" {
		fmt.Fprintf(c.out, "\nSo it is used:\n  %s\n", display.CommandAt(t.config.Origin.File, "call", "--user", filepath.Base(to.dir), "--slice", o.Slice, "Status"))
	}
	return nil
}

// slice is the file with the credential of a slice, whose name has any case.
func (u *trialUser) slice(name string) string {
	for _, have := range slicesIn(u.Dir) {
		if strings.EqualFold(have, name) {
			name = have
		}
	}
	return filepath.Join(u.Dir, slicesDir, name+"-cred.xml")
}

// existing is a user who has been made before.
func (t *trialSite) existing(name string) (*trialUser, error) {
	users := filepath.Join(t.dir, site.UsersDir)
	if _, err := os.Lstat(filepath.Join(users, strings.ToLower(name))); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no user %s here; %smake it with: %s", name, instead(name, folksIn(users)), display.CommandAt(t.config.Origin.File, "user", name))
	}
	u, _, err := t.user(name, false, time.Now())
	return u, err
}

// receiver is who is handed a credential.
type receiver struct {
	urn         urn.URN
	certificate []byte // PEM, with its chain
	dir         string // of a user or tool of this site; "" for others
}

// receiver finds a user, a tool or a file of that name.
func (t *trialSite) receiver(name string) (receiver, error) {
	for _, folder := range []string{site.UsersDir, toolsDir} {
		dir := filepath.Join(t.dir, folder, strings.ToLower(name))
		if folder == site.UsersDir {
			dir = folderOfUser(t.dir, name)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries { // the file has the name as it was first spelled
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
		have := append(folksIn(filepath.Join(t.dir, site.UsersDir)), folksIn(filepath.Join(t.dir, toolsDir))...)
		return r, fmt.Errorf("--to %s: there is no user or tool of that name here (%w); %sname a file with a certificate", name, err, instead(name, have))
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

// isLent tells a credential that a user has handed on from one that an authority gave.
func isLent(credential []byte) bool { return bytes.Contains(credential, []byte("<parent>")) }

// sliceFile is where the receiver looks for credentials of a slice. One that an
// authority gave is never overwritten.
func (r receiver) sliceFile(slice string) (string, error) {
	if r.dir == "" {
		return "", errors.New("say with -o FILE where the credential is to go")
	}
	file := filepath.Join(r.dir, slicesDir, slice+"-cred.xml")
	text, err := site.ReadRegular(file)
	if err == nil && !isLent(text) {
		return "", fmt.Errorf("%s has a credential of its own for this slice, %s; say with -o FILE where the other is to go", r.urn, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return file, nil
}

// toolsDir holds a folder for each tool of the trial authority.
const toolsDir = "tools"
