package site

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/server"
	"patchbay/am/site/clock"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

// OpenAuthority opens the trial authority of the site. The error wraps fs.ErrNotExist if there is
// none. Commands use ConnectAuthority instead.
func (c *Config) OpenAuthority() (*authority.Authority, error) {
	dir := filepath.Dir(c.Origin.File)
	return authority.Open(dir, filepath.Join(dir, AuthorityDir))
}

// EndSessionsAndLinks ends all sessions and links of the pages of a site that is not served. It returns false if the
// site has no trial authority.
func (c *Config) EndSessionsAndLinks() (bool, error) {
	a, err := c.OpenAuthority()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(a.EndSessionsAndLinks(), a.Close())
}

// openAuthority opens the trial authority of the site, if it has one, and creates its service. The
// listener for clients serves it, besides the pages, only if trial_authority.serve is set. A read-only site opens none, because the
// original site does.
func (s *Site) openAuthority(siteClock *clock.Clock, auth *credentials.Authorizer) error {
	c := s.config
	if c.readOnly {
		return nil
	}
	a, err := c.OpenAuthority()
	switch isServed := c.TrialAuthority.Serve; {
	case errors.Is(err, fs.ErrNotExist) && isServed:
		return c.Origin.errorf("trial_authority.serve", "this site has no trial authority in %s; set serve: no", filepath.Join(filepath.Dir(c.Origin.File), AuthorityDir))
	case errors.Is(err, fs.ErrNotExist):
		if s.pages == nil {
			return nil
		}
		if s.trialState, err = authority.OpenSessions(filepath.Dir(c.Origin.File)); err == nil {
			s.onClose(s.trialState.Close)
		}
		return err
	case err != nil && isServed:
		return err
	case err != nil:
		s.log.Warn("the trial authority cannot be opened; pages are without members", "error", err)
		return nil
	case a.URN().Authority != c.Authority && isServed:
		return errors.Join(a.Close(),
			c.Origin.errorf("trial_authority.serve", "the trial authority is of %s, and the site is %s; set serve: no, or create a new site with init", a.URN().Authority, c.Authority))
	case a.URN().Authority != c.Authority:
		return a.Close()
	}
	s.onClose(a.Close)
	s.trialState = a
	s.trial, err = authority.New(a, authority.Config{
		Identify:           auth,
		PublicURL:          s.PublicURL,
		Manager:            s.inventory.Load().Manager,
		Slivers:            s.sliversOf,
		ServerCertificates: c.serverCertificates,
		Invite:             c.TrialAuthority.Invite,
		PagesURL:           s.PagesURL,
		SoftwareVersion:    SoftwareVersion(),
		Now:                siteClock.Now,
	})
	return err
}

// authority returns a nil interface if the site has no authority.
func (s *Site) authority() server.Authority {
	if s.trial == nil {
		return nil
	}
	return s.trial
}

func (s *Site) sliversOf(slice urn.URN) (list []am.Sliver, err error) {
	err = s.store.Read(func(v *store.View) (err error) {
		list, err = v.SliversOf(slice)
		return err
	})
	return list, err
}

// serverCertificates returns the first certificate of each pair in PEM.
func (c *Config) serverCertificates() (list [][]byte, err error) {
	for _, pair := range c.Keys {
		text, err := ReadRegular(pair.Certificate)
		if err != nil {
			return nil, err
		}
		chain, err := cert.ParsePEM(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pair.Certificate, err)
		}
		list = append(list, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw}))
	}
	return list, nil
}

func (s *Site) authorityNumbers() []server.Number {
	if s.trial == nil {
		return nil
	}
	return []server.Number{
		{Name: "authority_calls_total", Counter: true, Help: "Calls of the trial authority by service, method and code.", Labels: []string{"service", "method", "code"}, Values: s.trial.Calls},
		{Name: "authority_records", Help: "Records of the trial authority by kind.", Labels: []string{"kind"}, Values: s.trial.Records},
	}
}
