package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client/userfolder"
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
	t, unlock, err := o.site.LockTrial(ctx, c.err)
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
		fmt.Fprintf(c.out, "\nUse it with:\n  %s\n", display.CommandAt(t.Config.Origin.File, "call", "--user", filepath.Base(to.dir), "--slice", o.Slice, "Status"))
	}
	return nil
}

// delegate writes the credential to a file. It sets o.Slice to the name as it was first spelled.
func (o *delegateOptions) delegate(t *userfolder.Trial) (from *userfolder.User, to receiver, file string, err error) {
	if from, err = t.ExistingUser(o.From); err != nil {
		return from, to, "", err
	}
	own := from.CredentialFile(o.Slice)
	credential, err := site.ReadRegular(own)
	if errors.Is(err, fs.ErrNotExist) {
		return from, to, "", fmt.Errorf("%s has no credential for the slice %s; %sget one with: %s", from.Name, o.Slice, userfolder.SuggestNames(o.Slice, userfolder.Slices(from.Dir)), display.CommandAt(t.Config.Origin.File, "slice", o.Slice, "--owner", from.Name))
	}
	if err != nil {
		return from, to, "", err
	}
	o.Slice = strings.TrimSuffix(filepath.Base(own), "-cred.xml") // as it was first spelled
	if to, err = receiverNamed(t, o.To); err != nil {
		return from, to, "", err
	}
	if to.urn.Equal(from.URN) && !userfolder.IsDelegated(credential) {
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
		if expires, err = expiryOf(t, o.life, time.Now()); err != nil {
			return from, to, "", err
		}
	}
	text, err := trial.Delegate(credential, from.User, to.certificate, expires)
	if err != nil {
		return from, to, "", err
	}
	return from, to, file, site.ReplaceFile(file, text, 0o600)
}

// receiver is a user or tool that gets a delegated credential.
type receiver struct {
	urn         urn.URN
	certificate []byte // PEM, with its chain
	dir         string // the folder of a user or tool of this site; "" for others
}

// receiverNamed returns the user or tool of that name at this site. If there is none, name must
// be a file with the receiver's certificate.
func receiverNamed(t *userfolder.Trial, name string) (receiver, error) {
	for _, folder := range []string{site.UsersDir, userfolder.ToolsDir} {
		dir := filepath.Join(t.Dir, folder, strings.ToLower(name))
		if folder == site.UsersDir {
			dir = userfolder.Path(t.Dir, name)
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
		have := append(userfolder.Users(filepath.Join(t.Dir, site.UsersDir)), userfolder.Users(filepath.Join(t.Dir, userfolder.ToolsDir))...)
		return r, fmt.Errorf("--to %s: there is no user or tool of that name here (%w); %sgive a file with a certificate", name, err, userfolder.SuggestNames(name, have))
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

// sliceFile fails if the file holds a credential from an authority, which is never overwritten. It
// also fails if the receiver has no folder at this site.
func (r receiver) sliceFile(slice string) (string, error) {
	if r.dir == "" {
		return "", errors.New("the receiver has no folder here; give -o FILE for the credential")
	}
	file := filepath.Join(r.dir, userfolder.SlicesDir, slice+"-cred.xml")
	text, err := site.ReadRegular(file)
	if err == nil && !userfolder.IsDelegated(text) {
		return "", fmt.Errorf("%s already has its own credential for this slice, %s; give -o FILE for the delegated one", r.urn, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return file, nil
}
