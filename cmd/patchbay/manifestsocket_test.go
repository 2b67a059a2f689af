package main

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// getFromSocket sends a GET request to a socket, and returns the status and the body.
func getFromSocket(t *testing.T, socket, path string) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := c.Get("http://site" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestProvidersGetManifests requests manifests from a running server, as a provider does.
func TestProvidersGetManifests(t *testing.T) {
	dir := newSiteWith(t, aliceAndFirst...)
	socket := filepath.Join(dir, "admin.sock")
	// A socket that a killed server has left is replaced.
	stale, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	s := serve(t, dir)
	if info, err := os.Stat(socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("the socket: %v, %v", info, err)
	}
	code, out := runCommand(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "alice"), "--slice", "first", "--urns", "Allocate", filepath.Join(dir, "request.xml"))
	if code != 0 {
		t.Fatal(out)
	}
	slivers := regexp.MustCompile(`urn:publicid:IDN\+[^ ]*\+sliver\+[0-9a-f-]{36}`).FindAllString(out, -1)
	if len(slivers) < 2 {
		t.Fatalf("no slivers in %s", out)
	}
	path := "/manifest?sliver=" + url.QueryEscape(slivers[0])
	code, text := getFromSocket(t, socket, path)
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	wantTexts(t, text, `type="manifest"`, slivers[0], slivers[1])
	if code, text = getFromSocket(t, socket, path+"x"); code != 404 {
		t.Errorf("a sliver that is not there: %d %s", code, text)
	}
	if code, text = getFromSocket(t, socket, "/manifest?sliver=pc1"); code != 400 {
		t.Errorf("no URN: %d %s", code, text)
	}
	if code, _ = get(t, s.admin+path); code != 404 {
		t.Errorf("the admin listener gives manifests to everybody on this host: %d", code)
	}

	// A second server in the folder, with another database and other providers, does not
	// replace it.
	if err := os.CopyFS(filepath.Join(dir, "more"), os.DirFS(filepath.Join(dir, "providers"))); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.yaml")
	write(t, other, readFile(t, filepath.Join(dir, "patchbay.yaml"))+"\nproviders: more\nstate: other.db\naudit: other.log\n")
	second := serve(t, other)
	wantTexts(t, second.out.String(), "another server answers at "+socket)
	second.stop()
	if code, text := getFromSocket(t, socket, path); code != 200 {
		t.Errorf("after a second server: %d %s", code, text)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
	left, _ := filepath.Glob(socket + "*")
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	wantTexts(t, s.out.String(), "stopping")
}
