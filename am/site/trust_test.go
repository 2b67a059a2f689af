package site

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/site/clock"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// trusting is the part of a site that reads its trust folder, with one anchor.
func trusting(t *testing.T) (s *Site, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	s = &Site{config: &Config{Trusted: t.TempDir()}, log: slog.New(slog.NewTextHandler(log, nil)), auth: credentials.New(cert.NewAnchors(), credentials.Config{})}
	s.clock = clock.New(clock.Options{})
	put(t, s.config.Trusted, "root.pem", pki.PEM(pki.Authority(t, nil, "urn:publicid:IDN+example.org+authority+ca", "rsa1")))
	if err := s.loadAnchors(); err != nil {
		t.Fatal(err)
	}
	return s, log
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatMatterInTheTrustFolder(t *testing.T) {
	dir := t.TempDir()
	for name, matters := range map[string]bool{
		"x.pem": true, "x.crl": true, "x.authorities": true, "denied": true, "Denied.txt": true, ".denied.swp": false, "log": false, "sub/x.pem": false,
	} {
		before := trustState(dir)
		os.Mkdir(filepath.Join(dir, "sub"), 0o700)
		put(t, dir, name, "x")
		if changed := trustState(dir) != before; changed != matters {
			t.Errorf("%s matters: %v", name, changed)
		}
	}
}

// TestLinksThatAreExchangedAtOnce has a folder as container systems mount one: all files are
// links into another folder, which is replaced as a whole.
func TestLinksThatAreExchangedAtOnce(t *testing.T) {
	s, _ := trusting(t)
	dir := s.config.Trusted
	exchange := func(version, denied string) {
		t.Helper()
		tmp := filepath.Join(dir, "..data_tmp")
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, version), 0o755),
			os.WriteFile(filepath.Join(dir, version, "denied"), []byte(denied), 0o644),
			os.Symlink(version, tmp),
			os.Rename(tmp, filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange("..v1", "# nobody\n")
	if err := os.Symlink("..data/denied", filepath.Join(dir, "denied")); err != nil {
		t.Fatal(err)
	}
	s.reloadAnchors()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.watchTrust(ctx) })
	defer running.Wait()
	defer cancel()
	before := s.anchors.Load()
	for n := 2; ; n++ { // the first may come before the folder is watched
		exchange(fmt.Sprintf("..v%d", n), "urn:publicid:IDN+example.org+user+mallory\n")
		for range 20 {
			if a := s.anchors.Load(); len(a.Denials()) == 1 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n > 20 {
			t.Fatalf("the new deny list is not in force: %v", before.Denials())
		}
	}
}

func TestTrustFolderThatChangesWhileTheSiteIsOpenedIsReadAgain(t *testing.T) {
	s, _ := trusting(t)
	put(t, s.config.Trusted, "denied", "urn:publicid:IDN+example.org+user+mallory\n")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.watchTrust(ctx) })
	defer running.Wait()
	defer cancel()
	for end := time.Now().Add(10 * time.Second); len(s.anchors.Load().Denials()) == 0; time.Sleep(filePause / 4) {
		if time.Now().After(end) {
			t.Fatal("the deny list is not in force")
		}
	}
}

func TestTrustFolderThatIsNeverQuietIsReadAllTheSame(t *testing.T) {
	s, _ := trusting(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.watchTrust(ctx) })
	defer running.Wait()
	defer cancel()
	before := s.anchors.Load().Generation()
	const patience = 15 * time.Second
	end := time.Now().Add(patience)
	for i := 0; s.anchors.Load().Generation() == before; i++ {
		if time.Now().After(end) {
			t.Fatalf("the folder was not read in %v", patience)
		}
		put(t, s.config.Trusted, "root.authorities", fmt.Sprintf("example.net # %d\n", i))
		time.Sleep(filePause / 4)
	}
}

func TestPanicOverTheTrustFolderChangesNothing(t *testing.T) {
	s, log := trusting(t)
	before := s.anchors.Load()
	folder := s.trusted
	s.trusted = nil // reading it panics
	s.reloadAnchors()
	if s.anchors.Load() != before || !strings.Contains(log.String(), "the previous certificates stay trusted") || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("after a panic: %s", log)
	}
	s.trusted = folder
	put(t, s.config.Trusted, "other.pem", pki.PEM(pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa2")))
	s.reloadAnchors()
	if len(s.anchors.Load().List()) != 2 {
		t.Error("the folder is not read any more")
	}
}
