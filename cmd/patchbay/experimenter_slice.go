package main

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
	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/site"
)

// slice has files in the user's folder.
type slice struct {
	*experiment.Experiment
	session *session
	name    string
}

func (s *session) sliceFile(name, suffix string) string {
	return filepath.Join(s.dir, "slices", name+suffix)
}

// minimumLife is the remaining life below which credentials of the trial authority are
// renewed.
const minimumLife = 24 * time.Hour

// openSlice renews credentials of this site's trial authority, or of the authority where the user
// has logged in, that end before a lease from now for the parameter life. If creating is true, it
// creates a missing slice.
func (s *session) openSlice(ctx context.Context, name string, life time.Duration, creating bool) (*slice, error) {
	renew := func() error { return s.renewAtAuthority(ctx, name, life, creating) }
	if s.trial != nil {
		renew = func() error { return s.renewCredentials(name, life, creating) }
	}
	if err := renew(); err != nil {
		return nil, err
	}
	me, err := readCaller([]string{s.dir}, name)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: s.URL, CertFile: me.certFile, KeyFile: me.keyFile, ServerCAFile: s.CA})
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, c)
	return &slice{&experiment.Experiment{
		Client: c, Slice: me.sliceURN, Credentials: me.forSlice(), Users: me.users(), Progress: func(experiment.Phase, []client.Sliver) {},
	}, s, name}, nil
}

// renewCredentials renews the credentials of the user and the slice if they end too soon.
// If creating is true, it also writes a missing credential of the slice. It does not
// replace credentials that another user has delegated.
func (s *session) renewCredentials(name string, life time.Duration, creating bool) error {
	now := time.Now()
	user := s.userName()
	until := func(file string) time.Time {
		text, err := site.ReadRegular(file)
		if err != nil {
			return time.Time{}
		}
		c, _ := readCredential(text)
		if isDelegated(text) || c.owner == "" || !strings.HasPrefix(c.owner, s.userURN("")) {
			return now.Add(100 * 365 * 24 * time.Hour)
		}
		return c.expires
	}
	for _, file := range globbed(s.dir, "*-usercred.xml") {
		if until(file).Before(now.Add(minimumLife)) {
			if _, _, err := s.trial.writeUser(strings.TrimSuffix(filepath.Base(file), "-usercred.xml"), true, now); err != nil {
				return err
			}
		}
	}
	file := s.sliceFile(name, "-cred.xml")
	if !exists(file) && !creating || !until(file).Before(now.Add(max(life+time.Hour, minimumLife))) {
		return nil
	}
	if has := s.trial.otherOwner(name, user); has != "" {
		return fmt.Errorf("%s owns the slice %s; choose another name with --slice, or have it delegated with: %s", has, name, display.CommandAt(s.config.Origin.File, "delegate", name, "--from", has, "--to", user))
	}
	longest := s.trial.Expires().Sub(now) - time.Minute
	_, _, _, err := s.trial.writeSlice(name, user, now.Add(min(max(7*24*time.Hour, life+time.Hour), longest)), now)
	return err
}

func (x *slice) write(suffix string, text []byte) error {
	return site.ReplaceFile(x.session.sliceFile(x.name, suffix), text, 0o600)
}

// forget keeps the credential.
func (x *slice) forget() error {
	for _, suffix := range []string{".request.xml", newRequest, ".manifest.xml"} {
		if err := removeFile(x.session.sliceFile(x.name, suffix)); err != nil {
			return err
		}
	}
	return x.session.writeSSH()
}

// newRequest is the end of the name of the file with the request of an Allocate whose answer up has
// not seen yet.
const newRequest = ".request.xml.new"

// refresh updates the stored manifest. It does not store an unreadable manifest, since
// other commands would then fail.
func (x *slice) refresh(ctx context.Context) (client.Answer, error) {
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
	if err := x.write(".manifest.xml", []byte(a.RSpec)); err != nil {
		return a, err
	}
	return a, x.session.writeSSH()
}

// adoptRequest stores the request of an up that ended before it saw the answer of Allocate, if the
// aggregate has carried it out: the manifest has all nodes of the request, and slivers that the stored
// manifest lacks. If such an up only changed nodes in place, the next one changes them again, which has
// no effect.
func (x *slice) adoptRequest(m experiment.Manifest) error {
	file := x.session.sliceFile(x.name, newRequest)
	text, err := site.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stored, _, err := x.session.hosts(x.name)
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
	return x.storeRequest(text)
}

// storeRequest stores the request of the slivers that exist.
func (x *slice) storeRequest(text []byte) error {
	if err := x.write(".request.xml", text); err != nil {
		return err
	}
	return removeFile(x.session.sliceFile(x.name, newRequest))
}

func earliestEnd(list []client.Sliver) (end time.Time) {
	for _, s := range list {
		if end.IsZero() || s.Expires.Before(end) {
			end = s.Expires
		}
	}
	return end
}
