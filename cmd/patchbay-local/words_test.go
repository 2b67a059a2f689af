package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

func TestErrorMessages(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	for name, text := range map[string]string{
		"local.yaml":  "instance: words-none\n",
		"listen.yaml": "instance: words-none\nlisten: 192.0.2.1\n",
		"site.yaml":   "authority: example.org\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ args, want string }{
		{"up", "patchbay-local: SETTINGS is missing; type: patchbay-local up SETTINGS"},
		{"enter", "patchbay-local: SETTINGS and NODE are missing; type: patchbay-local enter SETTINGS NODE [--] [COMMAND]"},
		{"enter local.yaml", "patchbay-local: NODE is missing"},
		{"image add local.yaml", "patchbay-local: NAME is missing"},
		{"list local.yaml more", `patchbay-local: unexpected argument "more"; type: patchbay-local list SETTINGS`},
		{"list nofile.yaml", "patchbay-local: nofile.yaml does not exist; SETTINGS is the local.yaml"},
		{"clean --state " + state + " nofile.yaml", "patchbay-local: nofile.yaml does not exist"},
		{"up --state " + state + " listen.yaml", "patchbay-local: listen.yaml: listen is 192.0.2.1, which is no address of this host; write one that this prints: ip -brief address"},
		{"up --state " + state + " site.yaml", "this is the site's configuration"},
		{"image remove --state " + state + " local.yaml nope", `patchbay-local: there is no image "nope" to remove`},
	} {
		c := exec.Command(binary(), strings.Fields(tt.args)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v, %q, want %q", tt.args, err, out, tt.want)
		}
	}
	// The second time there is nothing to remove.
	for _, want := range []string{"Nothing of the testbed words-none is left in " + state, "There was nothing in " + state} {
		c := exec.Command(binary(), "clean", "--state", state, "local.yaml")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("clean: %v, %q, want %q", err, out, want)
		}
	}
}

// errorMessagesWhileRunning checks the messages for users without permission, and for entering a node
// that is off.
func errorMessagesWhileRunning(t *testing.T, a *arena) {
	b := a.testSite
	const off = "00000000-0000-4000-8000-0000000000aa"
	b.set(t, off, node("localhost", provider.Resource{"power": "off"}))
	out, err := exec.Command(binary(), "enter", b.settings, off, "true").CombinedOutput()
	if err == nil || string(out) != "patchbay-local: node "+off+" is switched off\n" {
		t.Errorf("enter: %v, %q", err, out)
	}
	for _, words := range [][]string{{"--", "echo", "-n", "--", "in"}, {"echo", "-n", "--", "in"}} {
		if out, err := exec.Command(binary(), append([]string{"enter", b.settings, nodeA}, words...)...).CombinedOutput(); err != nil || string(out) != "-- in" {
			t.Errorf("enter %v: %v, %q", words, err, out)
		}
	}
	// In a folder that everybody may read.
	settings := filepath.Join("/tmp", "words-"+filepath.Base(b.dir)+".yaml")
	program := settings + ".program"
	t.Cleanup(func() { os.Remove(settings); os.Remove(program) })
	text, err := os.ReadFile(binary())
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err == nil {
		err = os.WriteFile(settings, []byte("instance: "+b.instance+"\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "list", settings)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err == nil || string(out) != "patchbay-local: only root and the owner of "+settings+" may call the testbed "+b.instance+": run it with sudo\n" {
		t.Errorf("list: %v, %q", err, out)
	}
}
