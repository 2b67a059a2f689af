package userfolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

// A Delegation is a slice that one user lends to another user or a tool.
type Delegation struct {
	Slice    string
	From, To string
	Life     time.Duration // 0: as long as the delegated credential
	Output   string        // the file for the credential; "": in the receiver's folder
}

// Delegate writes the credential to a file. It sets d.Slice to the name as it was first spelled.
func (t *Trial) Delegate(d *Delegation) (from *User, to Receiver, file string, err error) {
	if from, err = t.ExistingUser(d.From); err != nil {
		return from, to, "", err
	}
	own := from.CredentialFile(d.Slice)
	credential, err := site.ReadRegular(own)
	if errors.Is(err, fs.ErrNotExist) {
		return from, to, "", fmt.Errorf("%s has no credential for the slice %s; %sget one with: %s", from.Name, d.Slice, SuggestNames(d.Slice, Slices(from.Dir)), display.CommandAt(t.Config.Origin.File, "slice", d.Slice, "--owner", from.Name))
	}
	if err != nil {
		return from, to, "", err
	}
	d.Slice = strings.TrimSuffix(filepath.Base(own), "-cred.xml") // as it was first spelled
	if to, err = receiverNamed(t, d.To); err != nil {
		return from, to, "", err
	}
	if to.URN.Equal(from.URN) && !IsDelegated(credential) {
		return from, to, "", fmt.Errorf("%s already owns the slice %s; give another user or tool with --to", from.Name, d.Slice)
	}
	file = d.Output
	if file == "" {
		if file, err = to.sliceFile(d.Slice); err != nil {
			return from, to, "", err
		}
	}
	var expires time.Time
	if d.Life > 0 {
		if expires, err = t.ExpiryOf(d.Life, time.Now()); err != nil {
			return from, to, "", err
		}
	}
	text, err := trial.Delegate(credential, from.User, to.certificate, expires)
	if err != nil {
		return from, to, "", err
	}
	return from, to, file, site.ReplaceFile(file, text, 0o600)
}

// A Receiver is a user or tool that gets a delegated credential.
type Receiver struct {
	URN         urn.URN
	certificate []byte // PEM, with its chain
	Dir         string // the folder of a user or tool of this site; "" for others
}

// receiverNamed returns the user or tool of that name at this site. If there is none, name must
// be a file with the receiver's certificate.
func receiverNamed(t *Trial, name string) (Receiver, error) {
	for _, folder := range []string{site.UsersDir, ToolsDir} {
		dir := filepath.Join(t.Dir, folder, strings.ToLower(name))
		if folder == site.UsersDir {
			dir = Path(t.Dir, name)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries { // the file name has the case of the first spelling
			if !strings.EqualFold(e.Name(), name+"-cert.pem") {
				continue
			}
			if r, err := readReceiver(filepath.Join(dir, e.Name())); err == nil {
				r.Dir = dir
				return r, nil
			}
		}
	}
	r, err := readReceiver(name)
	if err != nil {
		have := append(Users(filepath.Join(t.Dir, site.UsersDir)), Users(filepath.Join(t.Dir, ToolsDir))...)
		return r, fmt.Errorf("--to %s: there is no user or tool of that name here (%w); %sgive a file with a certificate", name, err, SuggestNames(name, have))
	}
	return r, nil
}

func readReceiver(file string) (Receiver, error) {
	text, err := site.ReadRegular(file)
	if err != nil {
		return Receiver{}, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return Receiver{}, fmt.Errorf("%s: %w", file, err)
	}
	return Receiver{URN: list[0].URN, certificate: text}, nil
}

// sliceFile fails if the file holds a credential from an authority, which is never overwritten. It
// also fails if the receiver has no folder at this site.
func (r Receiver) sliceFile(slice string) (string, error) {
	if r.Dir == "" {
		return "", errors.New("the receiver has no folder here; give -o FILE for the credential")
	}
	file := filepath.Join(r.Dir, SlicesDir, slice+"-cred.xml")
	text, err := site.ReadRegular(file)
	if err == nil && !IsDelegated(text) {
		return "", fmt.Errorf("%s already has its own credential for this slice, %s; give -o FILE for the delegated one", r.URN, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return file, nil
}
