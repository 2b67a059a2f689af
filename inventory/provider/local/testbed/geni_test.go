package testbed

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// serveManifests answers at the manifest socket until the test ends.
func serveManifests(t *testing.T, path string, answers ...string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for _, text := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n, _ := c.Read(b)
			if want := "GET /manifest?sliver=urn%3Apublicid%3AIDN%2Bexample.org%2Bsliver%2Bweb HTTP/1.1\r\n"; !strings.HasPrefix(string(b[:n]), want) {
				text = "HTTP/1.0 400 Bad\r\n\r\nasked " + string(b[:n])
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
		l.Close()
	}()
}

func TestGeniGet(t *testing.T) {
	h := newFakeHost(t)
	h.settings.ManifestSocket = filepath.Join(h.dir, "admin.sock")
	tb, stop := h.run(-1)
	defer stop()
	should := newNode("web", sliceURN, "alice", "bob")
	setUntilReady(t, tb, nodeName(1), should)
	nc := tb.node(nodeName(1))
	for _, tt := range []struct {
		words   string
		insider bool
		want    string
	}{
		{"client_id", false, "web"},
		{"slice_urn", false, sliceURN},
		{"sliver_urn", false, "urn:publicid:IDN+example.org+sliver+web"},
		{"user_urn", false, "urn:publicid:IDN+example.org+user+alice"},
		{"user_email", false, "error: the aggregate does not know e-mail addresses"},
		{"control_mac", false, "error: this node has no control interface: nodes of this site have no outside network"},
		{"version", false, "1"},
		{"-n -p 12 version", false, "1"},
		{"--client-version", false, "1"},
		{"key", false, "error: only root and the accounts of the experiment may read its key"},
		{"key", true, string(testKey(t))},
		{"rm -rf", true, "error: there is no command \"-rf\"; the commands are client_id, commands,"},
		{"", false, "client_id     the name of this node in your request\n"},
		{"--help", false, "client_id     the name of this node in your request\n"},
		{"manifest", false, "error: the aggregate manager did not send the manifest; try again"},
	} {
		got, err := nc.geniAnswer(geniCommand(strings.Fields(tt.words)), tt.insider)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.words, got, tt.want)
		}
	}
	text, err := nc.geniAnswer("geni_user", false)
	var users []struct {
		URN, Login string
		Keys       []struct{ Type, Key string }
	}
	if err != nil || json.Unmarshal([]byte(text), &users) != nil || len(users) != 2 || users[1].Login != "bob" || users[1].Keys[0].Key != "ssh-ed25519 AAAA bob" {
		t.Errorf("geni_user: %s, %v", text, err)
	}

	serveManifests(t, h.settings.ManifestSocket, "HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n<rspec>\r\n\r\n</rspec>", "HTTP/1.0 500 Oops\r\n\r\n<rspec/>", "HTTP/1.0 200 OK\r\n\r\n<a b=\"c\">")
	for _, when := range []string{"it answers", "it has just answered", "it does not"} {
		if when == "it does not" {
			nc.slice.manifest.at = time.Time{}
		}
		if text, err := nc.geniAnswer("manifest", false); err != nil || text != "<rspec>\r\n\r\n</rspec>" {
			t.Errorf("manifest when %s: %q, %v", when, text, err)
		}
	}
	nc.slice.manifest.at = time.Time{}
	text, err = nc.geniAnswer("all", true)
	if err != nil || !strings.Contains(text, `<a b=\"c\">`) || strings.Contains(text, "PRIVATE KEY") {
		t.Errorf("all: %s, %v", text, err)
	}
	set(t, tb, nodeName(1), provider.Resource{"users": []string{}})
	if _, err := nc.geniAnswer("user_urn", false); err == nil {
		t.Error("no user has a URN")
	}
}

// Four slices do not read their long manifests.
func TestSlowReadersOfManifestsDelayNoOtherSlice(t *testing.T) {
	tb := newTestbed(Options{})
	defer tb.stop()
	short, long := strings.Repeat("x", maxCachedManifest), strings.Repeat("x", maxCachedManifest+1)
	send := func(nc *nodeController, text string) (func(), error) {
		got, release, err := nc.sendManifest(func() (string, error) { return text, nil })
		if err == nil && got != text {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
		return release, err
	}
	var releases []func()
	var slow []*nodeController
	for i := range maxManifestFetches {
		slow = append(slow, tb.newController(nodeName(i)))
		release, err := send(slow[i], long)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	other := tb.newController(nodeName(9))
	for _, tt := range []struct {
		name, text string
		want       error
	}{{"a short manifest", short, nil}, {"another short manifest", "x", nil}, {"a fifth long manifest", long, errNoManifest}} {
		release, err := send(other, tt.text)
		if err != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
		release()
	}
	got := make(chan error)
	go func() {
		release, err := send(slow[0], "x")
		release()
		got <- err
	}()
	select {
	case <-got:
		t.Error("a slice sends two manifests at once")
	case <-time.After(20 * time.Millisecond):
	}
	for _, release := range releases {
		release()
	}
	if err := <-got; err != nil {
		t.Errorf("the slot is not passed on: %v", err)
	}
	if release, err := send(other, long); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

func TestRateOfGeniGet(t *testing.T) {
	var r geniRate
	now, late := time.Unix(1000, 0), time.Duration(0)
	for i := range 3 * geniBurst {
		if late = r.wait(now); (late > 0) != (i >= geniBurst) {
			t.Fatalf("request %d waits %v", i+1, late)
		}
	}
	if want := 2 * geniBurst * geniPause; late != want {
		t.Errorf("the last of %d requests waits %v instead of %v", 3*geniBurst, late, want)
	}
	if late = r.wait(now.Add(time.Hour)); late != 0 {
		t.Errorf("after an hour a request waits %v", late)
	}
}

func TestAccessToTheExperimentKey(t *testing.T) {
	nc := newTestbed(Options{}).newController(nodeName(1))
	nc.rec.Base, nc.rec.Desired.Users = 0x70000000, userItems("alice", "carol")
	nc.userIDs = map[string]uint32{"alice": 10000, "bob": 10001}
	for _, tt := range []struct {
		who  string
		uid  int
		want bool
	}{
		{"root", 0x70000000, true},
		{"an account with a login", 0x70000000 + 10000, true},
		{"an account whose login was taken away, and whose processes still run", 0x70000000 + 10001, false},
		{"a user of an archive or of useradd", 0x70000000 + 1000, false},
		{"the next id of useradd", 0x70000000 + 10002, false},
		{"a system account", 0x70000000 + 33, false},
		{"nobody", 0x70000000 + 65534, false},
		{"root of the host", 0, false},
		{"a user of the host", 10000, false},
		{"the last id of another node", 0x6fffffff, false},
		{"the first id of another node", 0x70000000 + 65536, false},
	} {
		if got := nc.isExperimentUser(tt.uid); got != tt.want {
			t.Errorf("%s: %v", tt.who, got)
		}
	}
}

func TestManifestServerMustBeRootOrTheOwner(t *testing.T) {
	h := newFakeHost(t)
	path := filepath.Join(h.dir, "admin.sock")
	if _, err := askManager(t.Context(), path, 0, "/manifest"); !os.IsNotExist(err) && err == nil {
		t.Error("no process answered")
	}
	for answer, want := range map[string]string{
		"": "EOF", "HTTP/1.0 200 OK\r\n": "EOF", "SSH-2.0-x\r\n\r\n": "malformed HTTP", "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n": "302 Found",
		"HTTP/1.0 404 Gone\r\n\r\nno": `"no"`, "HTTP/1.0 200 OK\r\nX: " + strings.Repeat("x", 2*maxHead) + "\r\n\r\n": "headers exceeded",
		"HTTP/1.0 200 OK\r\n\r\n" + strings.Repeat("x", maxManifest+1): fmt.Sprint(maxManifest),
	} {
		path := filepath.Join(t.TempDir(), "s")
		serveManifests(t, path, answer)
		b, err := askManager(t.Context(), path, 0, "/manifest?sliver=urn%3Apublicid%3AIDN%2Bexample.org%2Bsliver%2Bweb")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %d bytes, %v", answer, len(b), err)
		}
	}
}
