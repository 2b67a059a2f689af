package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"patchbay/credentials/cert"
)

// trustPause is how long the trust folder must be quiet before it is read, so
// that a file is not read while it is being written.
const trustPause = 200 * time.Millisecond

// loadAnchors reads the trust folder of a site that is about to serve.
func loadAnchors(dir string, log *slog.Logger) (*cert.Anchors, error) {
	a, problems, err := cert.LoadAnchors(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; put the certificates of the authorities whose users may come into this folder (key trusted)", err)
	}
	for _, p := range problems {
		log.Warn("trust folder", "problem", p.String())
	}
	if len(a.List()) == 0 {
		return nil, fmt.Errorf("%s holds no trusted certificate, so nobody could call; put the root of your federation, or authority/authority.pem, into it as NAME.pem", dir)
	}
	warnExpiry(a, time.Now(), log)
	return a, nil
}

// reloadAnchors reads the trust folder again. A folder that cannot be read
// changes nothing; one that has become empty is taken by its word.
func (s *site) reloadAnchors() {
	a, problems, err := cert.LoadAnchors(s.config.Trusted)
	if err != nil {
		s.log.Error("the trust folder cannot be read; what was trusted stays trusted", "error", err)
		return
	}
	for _, p := range problems {
		s.log.Warn("trust folder", "problem", p.String())
	}
	if a.Generation() == s.anchors.Load().Generation() {
		return
	}
	s.anchors.Store(a)
	s.auth.SetAnchors(a)
	if len(a.List()) == 0 {
		s.log.Error("the trust folder is empty: nobody may call any more", "folder", s.config.Trusted)
		return
	}
	s.log.Info("trust folder read", "anchors", len(a.List()), "generation", a.Generation())
	warnExpiry(a, time.Now(), s.log)
}

// watchTrust reads the trust folder again whenever it changes, until ctx ends.
func (s *site) watchTrust(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	dir := s.config.Trusted
	// The folder above tells when the folder itself is replaced.
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := w.Add(d); err != nil {
			return err
		}
	}
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if e.Name == dir || filepath.Dir(e.Name) == dir {
				quiet.Reset(trustPause)
			}
		case err := <-w.Errors: // such as an overflow: events were lost
			s.log.Warn("watching the trust folder", "error", err)
			quiet.Reset(trustPause)
		case <-quiet.C:
			w.Add(dir) // it may be a new folder of that name
			s.reloadAnchors()
		}
	}
}
