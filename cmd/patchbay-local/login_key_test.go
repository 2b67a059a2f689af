package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

const (
	keysNode  = "0d000000-0000-4000-8000-00000000106d"
	usersNode = "0e000000-0000-4000-8000-00000000106e"
)

// loginKeys logs in with keys of every kind.
func loginKeys(t *testing.T, s *loginSite) {
	keygen := require.Tool(t, "ssh-keygen")
	dir := t.TempDir()
	generate := func(t *testing.T, name string, args ...string) (path, public string) {
		t.Helper()
		path = filepath.Join(dir, name)
		if out, err := exec.Command(keygen, append([]string{"-q", "-N", "", "-C", "", "-f", path}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return path, strings.TrimSpace(read(t, path+".pub"))
	}
	kinds := map[string][]string{
		"rsa2048": {"-t", "rsa", "-b", "2048"}, "rsa4096": {"-t", "rsa", "-b", "4096"}, "ed25519": {"-t", "ed25519"},
		"ecdsa256": {"-t", "ecdsa", "-b", "256"}, "ecdsa384": {"-t", "ecdsa", "-b", "384"}, "ecdsa521": {"-t", "ecdsa", "-b", "521"},
	}
	paths := map[string]string{}
	var lines []string
	for kind, args := range kinds {
		path, public := generate(t, kind, args...)
		paths[kind] = path
		lines = append(lines, public)
	}
	token, weak := newToken(t, "token", 0x01), newToken(t, "token", 0x00)
	lines = append(lines, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(token.PublicKey()))))
	authority, authorityLine := generate(t, "authority", "-t", "ed25519")
	lines = append(lines, "cert-authority "+authorityLine)
	s.add(t, keysNode, "k", "three", provider.Resource{"users": []string{loginUser(t, "alice", lines...)}})
	alice := s.client(t, "alice", "k")
	with := func(path string, args ...string) result {
		config := strings.ReplaceAll(read(t, alice.config), s.keyFile(t, "alice"), path)
		c := &client{ctx: t.Context(), config: filepath.Join(dir, "config_"+filepath.Base(path))}
		if err := os.WriteFile(c.config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return c.ssh(args...)
	}
	for kind, path := range paths {
		t.Run(kind, func(t *testing.T) {
			for _, way := range []string{"k", "by-k"} {
				with(path, way, "id -un").expectOutput(t, "alice\n")
			}
		})
	}
	t.Run("rsaWithSHA1IsRefused", func(t *testing.T) {
		r := with(paths["rsa2048"], "-o", "PubkeyAcceptedAlgorithms=ssh-rsa", "k", "true")
		if r.status != 255 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SecurityKey", func(t *testing.T) {
		c, err := s.dial(t, "k", "alice", token)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
	t.Run("SecurityKeyThatNobodyTouched", func(t *testing.T) {
		if c, err := s.dial(t, "k", "alice", weak); err == nil {
			c.Close()
			t.Error("it opens the endpoint")
		}
	})
	t.Run("CertificateIsNoKey", func(t *testing.T) {
		path, _ := generate(t, "certified", "-t", "ed25519")
		for _, signed := range []string{path, paths["ed25519"]} { // of a key that is not listed, and of one that is
			if out, err := exec.Command(keygen, "-q", "-s", authority, "-I", "alice", "-n", "alice,root", signed+".pub").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		with(path, "-o", "CertificateFile="+path+"-cert.pub", "k", "true").expectRefused(t, "Permission denied (publickey)")
		certificate, _, _, _, err := ssh.ParseAuthorizedKey([]byte(read(t, paths["ed25519"]+"-cert.pub")))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := ssh.ParsePrivateKey([]byte(read(t, paths["ed25519"])))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(certificate.(*ssh.Certificate), plain)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := s.dial(t, "k", "alice", signer); err == nil {
			c.Close()
			t.Error("a certificate opens the endpoint")
		}
	})
	t.Run("WrongKey", func(t *testing.T) {
		for _, way := range []string{"k", "by-k"} {
			if r := alice.ssh(way, "true"); r.status != 255 || r.out != "" {
				t.Errorf("%s: %+v", way, r)
			}
		}
	})
	t.Run("RightKeyAmongTooMany", func(t *testing.T) { // an agent full of keys
		args := []string{}
		for i := range 4 {
			path, _ := generate(t, fmt.Sprint("other", i), "-t", "ed25519")
			args = append(args, "-i", path)
		}
		with(paths["ed25519"], append(args, "k", "id -un")...).expectOutput(t, "alice\n")
	})
}

// token is a hardware key for tests: its signatures say whether somebody
// touched it.
type token struct {
	key    ed25519.PrivateKey
	public ssh.PublicKey
	flags  byte
}

const tokenKind, tokenUse = "sk-ssh-ed25519@openssh.com", "ssh:"

func newToken(t testing.TB, name string, flags byte) *token {
	t.Helper()
	key := privateKey(name)
	public, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Kind string
		Key  []byte
		Use  string
	}{tokenKind, key.Public().(ed25519.PublicKey), tokenUse}))
	if err != nil {
		t.Fatal(err)
	}
	return &token{key, public, flags}
}

func (k *token) PublicKey() ssh.PublicKey { return k.public }

func (k *token) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	use, message := sha256.Sum256([]byte(tokenUse)), sha256.Sum256(data)
	type count struct {
		Flags   byte
		Counter uint32
	}
	rest := ssh.Marshal(count{k.flags, 7})
	signed := append(append(append([]byte{}, use[:]...), rest...), message[:]...)
	return &ssh.Signature{Format: tokenKind, Blob: ed25519.Sign(k.key, signed), Rest: rest}, nil
}

// loginAccountChanges changes who may log in at a node.
func loginAccountChanges(t *testing.T, s *loginSite) {
	update := func(t *testing.T, users ...string) {
		t.Helper()
		s.set(t, usersNode, provider.Resource{"users": users})
		s.await(t, usersNode, provider.StateReady)
	}
	s.add(t, usersNode, "u", "three", provider.Resource{"users": loginUsers(t, "alice")})
	alice, bob := s.client(t, "alice", "u"), s.client(t, "bob", "u")
	bob.ssh("u", "true").expectRefused(t, "Permission denied (publickey)")
	if r := bob.ssh("by-u", "true"); r.status != 255 {
		t.Errorf("%+v", r)
	}
	alice.ssh("u", "echo hers >file").expectOutput(t, "")
	var uid string

	t.Run("Added", func(t *testing.T) {
		stays := alice.command(t.Context(), "ssh", "u", "echo begun; read x; echo $x")
		in, err := stays.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out := startProgram(t, stays)
		_, _ = io.ReadFull(out, make([]byte, 6))
		update(t, loginUsers(t, "alice", "bob")...)
		for _, way := range []string{"u", "by-u"} {
			bob.ssh(way, "id -un; sudo -n id -un").expectOutput(t, "bob\nroot\n")
		}
		uid = bob.ssh("u", "echo his >file; chmod 600 file; id -u").out
		fmt.Fprintln(in, "undisturbed")
		if text, _ := io.ReadAll(out); string(text) != "undisturbed\n" {
			t.Errorf("a session during the change: %q", text)
		}
	})
	t.Run("WithdrawnWhileLoggedIn", func(t *testing.T) {
		var sessions []*exec.Cmd
		for _, args := range [][]string{{"u", "echo begun; sleep 700"}, {"by-u", "echo begun; sleep 700"}, {"-tt", "u", "echo begun; trap '' HUP TERM; sleep 700"}} {
			c := bob.command(t.Context(), "ssh", args...)
			if _, err := io.ReadFull(startProgram(t, c), make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, c)
		}
		bob.ssh("u", "setsid -f nohup sleep 701 >/dev/null 2>&1; sudo -n setsid -f sleep 702 >/dev/null 2>&1 </dev/null").expectOutput(t, "")
		update(t, loginUsers(t, "alice")...)
		for i, c := range sessions {
			if exit, is := errors.AsType[*exec.ExitError](c.Wait()); !is || exit.ExitCode() != 255 {
				t.Errorf("session %d ended with %v", i, exit)
			}
		}
		bob.ssh("u", "true").expectRefused(t, "Permission denied (publickey)")
		// Nothing of the account runs, what it made root's does, and its files stay.
		r := alice.ssh("u", "getent passwd bob; ps -eo uid,args | grep -c '[s]leep 70[01]'; pgrep -c -f '^sleep 702'; sudo -n cat /home/bob/file; sudo -n pkill -f '^sleep 702'; sudo -n stat -c %u /home/bob/file; sudo -n grep -c bob /etc/shadow /etc/group /etc/sudoers.d/90-patchbay")
		if want := "0\n1\nhis\n" + uid + "/etc/shadow:0\n/etc/group:0\n/etc/sudoers.d/90-patchbay:0\n"; r.out != want {
			t.Errorf("%+v; want %q", r, want)
		}
	})
	t.Run("ComesBackToItsFiles", func(t *testing.T) {
		update(t, loginUsers(t, "carol", "bob", "alice")...)
		bob.ssh("u", "id -u; cat file").expectOutput(t, uid+"his\n")
		if r := s.client(t, "carol", "u").ssh("u", "id -u; cat /home/bob/file"); r.status != 1 || r.out == uid || !strings.Contains(r.err, "Permission denied") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("KeyReplacedWhileLoggedIn", func(t *testing.T) {
		old := bob.command(t.Context(), "ssh", "u", "echo begun; sleep 703")
		if _, err := io.ReadFull(startProgram(t, old), make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		update(t, loginUser(t, "alice"), loginUser(t, "bob", publicKeyLine(t, "new")))
		if old.Wait() == nil {
			t.Error("the session of the old key goes on")
		}
		bob.ssh("u", "true").expectRefused(t, "Permission denied (publickey)")
		c, err := ssh.NewSignerFromKey(privateKey("new"))
		if err != nil {
			t.Fatal(err)
		}
		if client, err := s.dial(t, "u", "bob", c); err != nil {
			t.Error(err)
		} else {
			client.Close()
		}
	})
	t.Run("KeyAddedKeepsSessions", func(t *testing.T) {
		stays := alice.command(t.Context(), "ssh", "u", "echo begun; read x; echo $x")
		in, err := stays.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out := startProgram(t, stays)
		_, _ = io.ReadFull(out, make([]byte, 6))
		update(t, loginUser(t, "alice", publicKeyLine(t, "alice"), publicKeyLine(t, "second")))
		fmt.Fprintln(in, "undisturbed")
		if text, _ := io.ReadAll(out); string(text) != "undisturbed\n" {
			t.Errorf("%q", text)
		}
	})
	t.Run("NoAccounts", func(t *testing.T) {
		update(t, []string{}...)
		alice.ssh("u", "true").expectRefused(t, "Permission denied (publickey)")
		update(t, loginUsers(t, "alice")...)
		alice.ssh("u", "cat file").expectOutput(t, "hers\n")
	})
	t.Run("OwnKeysInAuthorizedKeysAreTheUsersAffair", func(t *testing.T) { // the file opens nothing
		alice.ssh("u", "echo '"+publicKeyLine(t, "bob")+"' >>.ssh/authorized_keys").expectOutput(t, "")
		bob.ssh("-l", "alice", "u", "true").expectRefused(t, "Permission denied (publickey)")
		update(t, loginUser(t, "alice", publicKeyLine(t, "alice"), publicKeyLine(t, "second")))
		r := alice.ssh("u", "grep -c . .ssh/authorized_keys; stat -c %a .ssh .ssh/authorized_keys")
		if !strings.HasSuffix(r.out, "700\n600\n") || !strings.Contains(alice.ssh("u", "cat .ssh/authorized_keys").out, publicKeyLine(t, "bob")) {
			t.Errorf("%+v", r)
		}
	})
}
