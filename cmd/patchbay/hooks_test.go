package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
)

func TestCheckLooksAtHooks(t *testing.T) {
	dir := made(t)
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("hooks/good", "#!/bin/sh\ntouch started\n", 0o755)
	put("hooks/open", "#!/bin/sh\n", 0o777)
	put("hooks/plain", "#!/bin/sh\n", 0o644)
	put("hooks/key", "0123456789abcdef\n", 0o644)
	put("hooks/short", "0123456789\n", 0o600)
	put("hooks/none.pem", "nothing", 0o644)
	put("shared/hook", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(filepath.Join(dir, "shared"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, hook string
		code       int
		want       string
	}{
		{"Good", "command: hooks/good", 0, "hook h is told of the usual events"},
		{"Missing", "command: hooks/absent", 1, "is not there; make it, or correct command"},
		{"EverybodyMayChangeIt", "command: hooks/open", 1, "chmod o-w"},
		{"NotExecutable", "command: hooks/plain", 1, "chmod +x"},
		{"Folder", "command: hooks", 1, "is no file"},
		{"EverybodyMayReplaceIt", "command: shared/hook", 0, "everybody may put another file in place of its command"},
		{"Plain", `url: "http://portal.example.org/"`, 0, "can be read on the way; use https"},
		{"PlainOnThisHost", `url: "http://127.0.0.1:1/"`, 0, "is told of the usual events"},
		{"SecretOthersRead", `url: "https://portal.example.org/", secret: hooks/key`, 0, "others may read its secret"},
		{"SecretTooShort", `url: "https://portal.example.org/", secret: hooks/short`, 1, "can be guessed"},
		{"NobodyVouches", `url: "https://portal.example.org/", ca: hooks/none.pem`, 1, "holds no certificate"},
		{"Chosen", `command: hooks/good, events: [gone, ready]`, 0, "hook h is told of gone, ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, "patchbay.yaml")
			before := readFile(t, file)
			defer os.WriteFile(file, []byte(before), 0o644)
			edit(t, file, "# hooks: []", "hooks:\n  - {name: h, "+c.hook+"}")
			code, out := tell(t, "check", "--config", dir)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("check started a hook")
	}
}

// check tells of a served site which hooks fail, since when and why, and which it
// does not know of.
func TestCheckTellsHowHooksDo(t *testing.T) {
	dir := made(t)
	file := filepath.Join(dir, "patchbay.yaml")
	for name, text := range map[string]string{"good": "#!/bin/sh\n", "bad": "#!/bin/sh\necho the mail server is away >&2\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, file, "# hooks: []", "hooks:\n  - {name: works, command: good}\n  - {name: refuses, command: bad}")
	tell(t, "user", "ann", "--config", dir)
	tell(t, "slice", "first", "--owner", "ann", "--config", dir)
	s := serve(t, dir)
	defer s.stop()
	check := func() string {
		t.Helper()
		code, out := tell(t, "check", "--config", dir)
		if code != 0 {
			t.Errorf("exit status %d: %s", code, out)
		}
		return out
	}
	if out := check(); strings.Contains(out, "fails since") {
		t.Errorf("before anything has happened: %s", out)
	}
	if code, out := tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first", "Allocate", filepath.Join(dir, "request.xml")); code != 0 {
		t.Fatal(out)
	}
	wait.Until(t, "it is told", func() bool {
		return strings.Contains(check(), "hook refuses fails since")
	})
	out := check()
	has(t, out, "warning  "+file+":", "in a row: ", "the mail server is away\"; 2 events wait for it")
	if strings.Contains(out, "hook works fails") {
		t.Error(out)
	}
	edit(t, file, "name: works", "name: new")
	has(t, check(), "note     "+file+":", "hook new is not told of anything yet: hooks are read when the server starts")
}
