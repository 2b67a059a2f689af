package experimenter

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
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

var update = flag.Bool("update", false, "write testdata/demo.xml anew")

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
		if err := os.WriteFile("testdata/demo.xml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
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

// TestDemoPrintsWhyItSimulates proves that demo prints why the host cannot run nodes.
func TestDemoPrintsWhyItSimulates(t *testing.T) {
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
