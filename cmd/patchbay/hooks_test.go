package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/hook"
	"patchbay/am/testkit/wait"
)

func TestHooksSayWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"UnknownKeyNamesTheNearest", "hooks:\n  - name: a\n    comand: x\n", "f.yaml:5: unknown key hooks.comand; did you mean hooks.command?"},
		{"NoList", "hooks: {name: a}\n", "f.yaml:3: hooks is a list"},
		{"NoName", "hooks:\n  - {name: a, command: x}\n  - command: x\n", "f.yaml:5: hooks: number 2 needs a name"},
		{"NameWithBlanks", "hooks: [{name: a b, command: x}]\n", `f.yaml:3: hooks: number 1 needs a name`},
		{"OneNameTwice", "hooks:\n  - {name: a, command: x}\n  - {name: a, command: y}\n", "f.yaml:5: hooks: two have the name a"},
		{"NeitherCommandNorURL", "hooks: [{name: a}]\n", "a needs a command or a url, one of them"},
		{"Both", "hooks: [{name: a, command: x, url: \"https://example.org/\"}]\n", "a needs a command or a url, one of them"},
		{"UnknownEventNamesTheNearest", "hooks: [{name: a, command: x, events: [ready, expirin]}]\n", `there is no event "expirin"; did you mean expiring?`},
		{"StrangeEventListsAll", "hooks: [{name: a, command: x, events: [birthday]}]\n", `there is no event "birthday"; known are: allocated, ready, failed`},
		{"TimeWithoutUnit", "hooks: [{name: a, command: x, timeout: 30}]\n", "\"30\" is not a time like"},
		{"NegativeTime", "hooks: [{name: a, command: x, before: -1h}]\n", "f.yaml:3: hooks.0.before: \"-1h\" is not a time"},
		{"EndlessTime", "hooks: [{name: a, command: x, timeout: 400d}]\n", "a: timeout must be a time like 30s, 1h or 2d"},
		{"SecretForACommand", "hooks: [{name: a, command: x, secret: y}]\n", "a: secret and ca go with url"},
		{"URLOfAnotherKind", "hooks: [{name: a, url: \"file:///etc/passwd\"}]\n", "a: its url is not https://HOST/PATH"},
		{"PasswordInURL", "hooks: [{name: a, url: \"https://me:word@example.org/\"}]\n", "a: its url holds a password; sign with secret: FILE instead"},
		{"PortOutOfRange", "hooks: [{name: a, url: \"https://example.org:84430/\"}]\n", "a: its url has the port 84430"},
		{"TooMany", "hooks:\n" + strings.Repeat("  - {name: a, command: x}\n", maxHooks+1), "33 are too many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseConfig("/site/f.yaml", []byte(smallest+c.text))
			if err == nil {
				t.Fatal("accepted")
			}
			has(t, err.Error(), c.want)
			if strings.Contains(err.Error(), "me:word") {
				t.Errorf("the message tells the password: %v", err)
			}
		})
	}
}

func TestHooksOfAConfiguration(t *testing.T) {
	c, err := parseConfig("/site/f.yaml", []byte(smallest+`hooks:
  - {name: mail, command: hooks/mail, events: [ready, gone], before: 1d}
  - {name: portal, url: "https://portal.example.org/x?y", secret: key, ca: /etc/ca.pem, timeout: 5s}
`))
	if err != nil {
		t.Fatal(err)
	}
	h := c.hooks()
	if x := h[0]; x.Command != "/site/hooks/mail" || x.Dir != "/site" || len(x.Events) != 2 || x.Before != 24*time.Hour || x.Timeout != hook.DefaultTimeout {
		t.Errorf("mail is %+v", x)
	}
	if x := h[1]; x.URL != "https://portal.example.org/x?y" || x.Secret != "/site/key" || x.CA != "/etc/ca.pem" || x.Events != nil || x.Before != hook.DefaultBefore || x.Timeout != 5*time.Second {
		t.Errorf("portal is %+v", x)
	}
}

// What an executable is told in its environment stands for no key: it can run
// commands of ours.
func TestAHookCanRunOurCommands(t *testing.T) {
	err := checkEnvironment([]string{"PATCHBAY_EVENT=ready", "PATCHBAY_EVENT_ID=1", "PATCHBAY_EVENT_HOOK=h", "PATCHBAY_EVENT_SLICE=s", "PATCHBAY_EVENT_SLIVER=s"})
	if err != nil {
		t.Error(err)
	}
	if err := checkEnvironment([]string{"PATCHBAY_HOOKS=x"}); err == nil {
		t.Error("hooks of the environment would be overlooked")
	} else {
		has(t, err.Error(), "hooks can be named in patchbay.yaml only")
	}
}

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
