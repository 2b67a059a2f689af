package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// corpusSite is a site on the local testbed that accepts requests for any other site. It
// is served in a namespace in which every name and every URL of an archive exists.
type corpusSite struct {
	*localSite
	lab    *netlab.Lab
	trial  *userfolder.Trial
	alice  *userfolder.User
	client *client.Client
	creds  []client.Credential // for a slice that stays empty
	key    ssh.Signer
}

func newCorpusSite(t *testing.T, requests []*corpusRequest) *corpusSite {
	t.Helper()
	s := &corpusSite{localSite: newLocalSite(t, "corpus.example.org"), lab: netlab.New(t, netlab.Options{Web: corpusWeb(t, requests)})}
	// The site accepts every manager that a request names.
	managers, shared, hardware := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, r := range requests {
		for _, h := range r.hardware() {
			hardware[h] = true
		}
		for _, m := range r.managers() {
			managers[m] = true
		}
		for _, v := range r.sharedVLANs() {
			shared[v] = true
		}
	}
	inv := filepath.Join(s.dir, "inventory.yaml")
	program.Edit(t, inv, "managers: []", "managers: ["+quotedList(managers)+"]")
	program.Edit(t, inv, "link_types: [lan, vlan, ethernet]", `link_types: ["*"]`)
	program.Edit(t, inv, "aliases: [default-vm, emulab-xen, emulab-openvz, docker-container, vm, raw-pc, raw, emulab-docker]", `aliases: ["*"]`)
	text := regexp.MustCompile(`(?m)^    capacity: .*$`).ReplaceAllString(program.ReadFile(t, inv), "    hardware_types: ["+quotedList(hardware)+"]\n    capacity: {slots: 1000, memory: 1T, disk: 10T}")
	program.Write(t, inv, text+"\nhardware_types: ["+quotedList(hardware)+"]\n")
	var vlans []string
	for i, name := range slices.Sorted(maps.Keys(shared)) {
		vlans = append(vlans, fmt.Sprintf("{name: %q, tag: %d}", name, i+2))
	}
	program.Edit(t, inv, "shared_vlans: []", "shared_vlans: ["+strings.Join(vlans, ", ")+"]")
	if err := os.WriteFile(filepath.Join(s.dir, site.PolicyName), create.SamplePolicy, 0o644); err != nil { // no limits: one user has all nodes
		t.Fatal(err)
	}
	program.Edit(t, s.settings, "shared_vlans: []", "shared_vlans: ["+quotedList(shared)+"]")
	program.Edit(t, s.settings, "outbound: no", "outbound: yes")
	program.Edit(t, s.settings, "dns: []", "dns: ["+netlab.Names+"]")
	program.Edit(t, s.settings, "services_wait: 30s", "services_wait: 2s")
	s.start()
	s.createUser()
	return s
}

func quotedList(m map[string]bool) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%q", k))
	}
	return strings.Join(list, ", ")
}

// authorityFile is a certificate that Debian trusts; nodes get that of the lab's web
// servers in its place.
const authorityFile = "/usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt"

// start runs the server in the lab, in a separate mount namespace.
func (s *corpusSite) start() {
	s.t.Helper()
	ca := filepath.Join(s.dir, "ca.pem")
	if err := os.WriteFile(ca, s.lab.CA, 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.url = "https://" + s.outsideAddress("127.0.0.1:8443")
	s.cmd = exec.Command("unshare", "--mount", "sh", "-c", `[ ! -e "$2" ] || mount --bind "$1" "$2"; shift 2; exec "$@"`, "sh", ca, authorityFile,
		filepath.Join(s.bin, "patchbay"), "serve", "--config", filepath.Join(s.dir, "patchbay.yaml"), "--listen", "127.0.0.1:8443")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.lab.Start(s.cmd); err != nil {
		s.t.Fatal(err)
	}
}

// outsideAddress returns an address of this host that forwards to one in the lab.
func (s *corpusSite) outsideAddress(inside string) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				far, err := s.dial(inside)
				if err != nil {
					return
				}
				defer far.Close()
				go func() {
					io.Copy(far, c)
					far.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(c, far)
			}()
		}
	}()
	return l.Addr().String()
}

// dial connects to an address of the lab's host.
func (s *corpusSite) dial(address string) (c net.Conn, err error) {
	err = s.lab.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", address, time.Minute)
		return err
	})
	return c, err
}

// createUser creates the user and waits until the site answers.
func (s *corpusSite) createUser() {
	t := s.t
	t.Helper()
	var unlock func()
	var err error
	if s.trial, unlock, err = (&session.ChosenSite{File: s.dir}).LockTrial(t.Context(), io.Discard); err == nil {
		defer unlock()
		s.alice, _, err = s.trial.WriteUser("alice", false, time.Now())
	}
	if err == nil {
		slice, _, _, failed := s.trial.WriteSlice("empty", "alice", time.Now().Add(24*time.Hour), time.Now())
		s.creds, err = []client.Credential{{Text: string(slice.Credential)}}, failed
	}
	if err == nil {
		s.client, err = client.New(client.Config{URL: s.url + "/am/3.0", CertFile: s.alice.Path("cert.pem"), KeyFile: s.alice.Path("key.pem")})
	}
	if err == nil {
		s.key, err = ssh.ParsePrivateKey([]byte(program.ReadFile(t, filepath.Join(s.dir, site.UsersDir, "alice", "id_ed25519"))))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	wait.Until(t, "an answer of the site", func() bool {
		_, _, err := s.client.GetVersion(t.Context())
		return err == nil
	})
}

// run runs a command in a node and returns its output.
func (s *corpusSite) run(ctx context.Context, at login, command string) (string, error) {
	conn, err := s.dial(net.JoinHostPort(at.host, at.port))
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c, channels, requests, err := ssh.NewClientConn(conn, at.host, &ssh.ClientConfig{
		User: at.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 20 * time.Second,
	})
	if err != nil {
		conn.Close()
		return "", err
	}
	session, err := ssh.NewClient(c, channels, requests).NewSession()
	if err != nil {
		c.Close()
		return "", err
	}
	defer c.Close()
	out, err := session.Output(command)
	return string(out), err
}

// corpusWeb serves a file of the kind that a URL names. All archives have the scripts
// that the requests run; each script reports that it ran.
func corpusWeb(t *testing.T, requests []*corpusRequest) http.Handler {
	t.Helper()
	names := make(map[string]bool)
	for _, r := range requests {
		for _, name := range r.scripts() {
			names[name] = true
		}
	}
	var scripts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n := len(scripts); n > 0 && strings.HasPrefix(name, scripts[n-1]+"/") {
			scripts = scripts[:n-1] // it is a folder
		}
		scripts = append(scripts, name)
	}
	const script = "#!/bin/sh\necho \"ran $0 $*\"\n"
	var plain, packed, zipped bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(io.MultiWriter(&plain, z))
	y := zip.NewWriter(&zipped)
	for _, name := range scripts {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script))})
		if err == nil {
			_, err = io.WriteString(w, script)
		}
		f, failed := y.Create(name)
		if failed == nil {
			_, failed = io.WriteString(f, script)
		}
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close(), y.Close()); err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		body := []byte(script)
		switch filepath.Ext(r.URL.Path) {
		case ".gz", ".tgz":
			body = packed.Bytes()
		case ".tar":
			body = plain.Bytes()
		case ".zip":
			body = zipped.Bytes()
		}
		to.Write(body)
	})
}
