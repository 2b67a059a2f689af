package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

func TestDemoShowsAnExperiment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	code, out := runCommand(t, "demo", "--provider", "simulated", "--keep", dir)
	if code != 0 {
		t.Fatal(out)
	}
	program.WantTexts(t, out, "far:0     10.0.0.3", "Allocate request.xml", "3 notready", "3 ready", "ssh -i", "SEARCHFAILED (12)", "patchbay serve --config")
	for i := range 13 {
		program.WantTexts(t, out, fmt.Sprintf("\n%2d. ", i+1))
	}
	for _, name := range []string{"request.svg", "manifest.svg"} {
		program.WantTexts(t, program.ReadFile(t, filepath.Join(dir, name)), "<svg", "far")
	}
	if code, out := runCommand(t, "check", "--config", dir); code != 0 {
		t.Errorf("the kept site: %s", out)
	}
	// A second demonstration in the folder runs no step, and removes nothing of the
	// first.
	code, out = runCommand(t, "demo", "--provider", "simulated", "--keep", dir)
	if want := "patchbay: " + dir + " has a site already and was not changed; name a new folder\n"; code != 1 || out != want {
		t.Errorf("in a folder with a site: %d %q, want %q", code, out, want)
	}
}

var update = flag.Bool("update", false, "write what is made from other files anew")

// TestDemoInstallsItsServer proves that the archive in the request has the program beside
// it.
func TestDemoInstallsItsServer(t *testing.T) {
	server, err := os.ReadFile("testdata/greet.pl")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	w := tar.NewWriter(z)
	err = w.WriteHeader(&tar.Header{Name: "greet.pl", Mode: 0o644, Size: int64(len(server))})
	if err == nil {
		_, err = w.Write(server)
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	const begins = "data:application/gzip;base64,"
	before, rest, ok := strings.Cut(demoRequest, begins)
	was, after, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatal("no archive in the request")
	}
	if *update {
		text := before + begins + base64.StdEncoding.EncodeToString(packed.Bytes()) + `"` + after
		program.Write(t, "testdata/demo.xml", text)
		return
	}
	if got, err := unpackedFile(was); err != nil || got != string(server) {
		t.Errorf("the request's archive holds another program (go test -run %s -update makes it anew): %v", t.Name(), err)
	}
}

// unpackedFile returns the only file of an archive.
func unpackedFile(text string) (string, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return "", err
	}
	r := tar.NewReader(z)
	if _, err := r.Next(); err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	if _, err := r.Next(); err != io.EOF {
		return "", fmt.Errorf("there is more than a file: %v", err)
	}
	return string(b), nil
}

// TestDemoSaysWhyItSimulates proves that demo prints why the host cannot run nodes.
func TestDemoSaysWhyItSimulates(t *testing.T) {
	runCommand(t, "version") // builds our programs, and adds them to the PATH
	stand := t.TempDir()
	t.Setenv("PATH", stand+":"+os.Getenv("PATH"))
	doctor := func(text string) {
		if err := os.WriteFile(filepath.Join(stand, "patchbay-local"), []byte("#!/bin/sh\n[ \"$*\" = 'doctor --quiet' ] || exit 9\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	require.Root(t)
	require.SSH(t)
	for _, tt := range []struct{ rule, doctor, want string }{
		{"fit", "exit 0", ""},
		{"reasons", "echo 'no overlayfs: load it'; echo 'no loop device'; exit 1", "no overlayfs: load it\n    no loop device\n"},
		{"a doctor that says nothing", "exit 3", "exit status 3"},
		{"words of a fit host", "echo all is well", ""},
	} {
		doctor(tt.doctor)
		var out bytes.Buffer
		local, err := (&demoOptions{}).chooseLocal(&demo{ctx: t.Context(), out: &out})
		if err != nil || local != (tt.want == "") || tt.want != "" && !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v, %v, %q", tt.rule, local, err, &out)
		}
		local, err = (&demoOptions{Provider: "local"}).chooseLocal(&demo{ctx: t.Context(), out: &out})
		if local != (err == nil) || local != (tt.want == "") {
			t.Errorf("%s, local asked for: %v, %v", tt.rule, local, err)
		}
	}
	doctor("exit 0")
	if local, err := (&demoOptions{Provider: "simulated"}).chooseLocal(&demo{}); local || err != nil {
		t.Errorf("simulated asked for: %v, %v", local, err)
	}
}

// TestAsSomebodyElse runs demo without the rights of root.
func TestAsSomebodyElse(t *testing.T) {
	require.Root(t)
	runCommand(t, "version")
	dir, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.MkdirTemp("", "patchbay-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"patchbay", "patchbay-local"} {
		if err := os.Link(filepath.Join(dir, name), filepath.Join(open, name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(open, "patchbay"), args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("demo", "--provider", "local")
	if err == nil {
		t.Error("it plays on the local testbed without root")
	}
	program.WantTexts(t, out, "that needs root; run it as root, or with sudo")

	site := filepath.Join(open, "site")
	if out, err = run("init", "--provider", "local", "--authority", "a.example.org", site); err != nil {
		t.Fatal(out)
	}
	bin := "sudo " + open + "/patchbay-local "
	program.WantTexts(t, out, "\n  "+bin+"doctor\n", "\n  "+bin+"up "+site+"/providers/local.yaml\nin another terminal:\n")
}
