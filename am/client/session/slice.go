package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
)

// Slice is a slice with files in the user's folder. The calls are those of Experiment.
type Slice struct {
	*experiment.Experiment
	Session *Session // in which it was opened
	Name    string   // as in the names of its files
}

// SliceFile returns the path of a file about a slice.
func (s *Session) SliceFile(name, suffix string) string {
	return filepath.Join(s.Dir, "slices", name+suffix)
}

// minimumLife is the remaining life below which credentials of the trial authority are
// renewed.
const minimumLife = 24 * time.Hour

// OpenSlice returns a slice of the user, for calls. It renews credentials of this site's trial
// authority, or of the authority where the user has logged in, that end before a lease from now for
// the parameter life. If creating is true, it creates a missing slice.
func (s *Session) OpenSlice(ctx context.Context, name string, life time.Duration, creating bool) (*Slice, error) {
	renew := func() error { return s.renewAtAuthority(ctx, name, life, creating) }
	if s.Trial != nil {
		renew = func() error { return s.renewCredentials(name, life, creating) }
	}
	if err := renew(); err != nil {
		return nil, err
	}
	me, err := ReadCaller([]string{s.Dir}, name)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: s.URL, CertFile: me.CertFile, KeyFile: me.KeyFile, ServerCAFile: s.CA})
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, c)
	return &Slice{&experiment.Experiment{
		Client: c, Slice: me.SliceURN, Credentials: me.ForSlice(), Users: me.Users(), Progress: func(experiment.Phase, []client.Sliver) {},
	}, s, name}, nil
}

// renewCredentials renews the credentials of the user and the slice if they end too soon.
// If creating is true, it also writes a missing credential of the slice. It does not
// replace credentials that another user has delegated.
func (s *Session) renewCredentials(name string, life time.Duration, creating bool) error {
	now := time.Now()
	user := s.UserName()
	expiryOf := func(file string) time.Time { // far away for credentials that must not be renewed
		text, err := site.ReadRegular(file)
		if err != nil {
			return time.Time{}
		}
		c, _ := ReadCredential(text)
		if userfolder.IsDelegated(text) || c.owner == "" || !strings.HasPrefix(c.owner, s.userURN("")) {
			return now.Add(100 * 365 * 24 * time.Hour)
		}
		return c.Expires
	}
	for _, file := range userfolder.Glob(s.Dir, "*-usercred.xml") {
		if expiryOf(file).Before(now.Add(minimumLife)) {
			if _, _, err := s.Trial.WriteUser(strings.TrimSuffix(filepath.Base(file), "-usercred.xml"), true, now); err != nil {
				return err
			}
		}
	}
	file := s.SliceFile(name, "-cred.xml")
	if !userfolder.FileExists(file) && !creating || !expiryOf(file).Before(now.Add(max(life+time.Hour, minimumLife))) {
		return nil
	}
	if owner := s.Trial.OtherOwner(name, user); owner != "" {
		return fmt.Errorf("%s owns the slice %s; choose another name with --slice, or have it delegated with: %s", owner, name, display.CommandAt(s.Config.Origin.File, "delegate", name, "--from", owner, "--to", user))
	}
	longest := s.Trial.Expires().Sub(now) - time.Minute
	_, _, _, err := s.Trial.WriteSlice(name, user, now.Add(min(max(7*24*time.Hour, life+time.Hour), longest)), now)
	return err
}

// Write replaces the slice's file with the suffix.
func (x *Slice) Write(suffix string, text []byte) error {
	return site.ReplaceFile(x.Session.SliceFile(x.Name, suffix), text, 0o600)
}

// Forget removes the slice's requests and its manifest, and keeps the credential.
func (x *Slice) Forget() error {
	for _, suffix := range []string{".request.xml", NewRequest, ".manifest.xml"} {
		if err := userfolder.RemoveFile(x.Session.SliceFile(x.Name, suffix)); err != nil {
			return err
		}
	}
	return x.Session.WriteSSH()
}

// NewRequest is the end of the name of the file with the request of an Allocate whose answer up has
// not seen yet.
const NewRequest = ".request.xml.new"

// Refresh updates the stored manifest. It does not store an unreadable manifest, since
// other commands would then fail.
func (x *Slice) Refresh(ctx context.Context) (client.Answer, error) {
	a, err := x.Describe(ctx)
	if err != nil || len(a.Slivers) == 0 {
		return a, err
	}
	m, err := experiment.ReadManifest([]byte(a.RSpec), "")
	if err != nil {
		return a, fmt.Errorf("the manifest from the aggregate cannot be read: %w", err)
	}
	if err := x.adoptRequest(m); err != nil {
		return a, err
	}
	if err := x.Write(".manifest.xml", []byte(a.RSpec)); err != nil {
		return a, err
	}
	return a, x.Session.WriteSSH()
}

// adoptRequest stores the request of an up that ended before it saw the answer of Allocate, if the
// aggregate has carried it out: the manifest has all nodes of the request, and slivers that the stored
// manifest lacks. If such an up only changed nodes in place, the next one changes them again, which has
// no effect.
func (x *Slice) adoptRequest(m experiment.Manifest) error {
	file := x.Session.SliceFile(x.Name, NewRequest)
	text, err := site.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stored, _, err := x.Session.Hosts(x.Name)
	if err != nil {
		return err
	}
	requested, err := experiment.ReadManifest(text, "")
	if err != nil { // not written by up
		return fmt.Errorf("%s: %w", file, err)
	}
	names, slivers := map[string]bool{}, map[string]bool{"": true}
	for _, h := range stored {
		slivers[h.Sliver] = true
	}
	isNew := false
	for _, n := range m.Nodes {
		names[n.Name] = true
		isNew = isNew || !slivers[n.Sliver]
	}
	if !isNew || slices.ContainsFunc(requested.Nodes, func(n experiment.Node) bool { return !names[n.Name] }) {
		return nil
	}
	return x.StoreRequest(text)
}

// StoreRequest stores the request of the slivers that exist.
func (x *Slice) StoreRequest(text []byte) error {
	if err := x.Write(".request.xml", text); err != nil {
		return err
	}
	return userfolder.RemoveFile(x.Session.SliceFile(x.Name, NewRequest))
}
