package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tell runs a command line in this process and gives its exit status and all
// that it said.
func tell(t testing.TB, args ...string) (int, string) {
	t.Helper()
	dir, err := programs() // init looks for patchbay-local
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(os.Getenv("PATH"), dir) {
		if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := run(t.Context(), args, console{&out, &out})
	return code, out.String()
}

// made is a folder with a new site.
func made(t testing.TB) string {
	t.Helper()
	return prepared(t)
}

// templates are sites that were made once, by the commands after init: the keys of
// their authorities and users take seconds.
var templates struct {
	sync.Mutex
	folder string // empty if no test asked for one
	made   map[string]string
}

// prepared is a copy of a site that init and then some commands made.
func prepared(t testing.TB, commands ...[]string) string {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	key := fmt.Sprint(commands)
	if templates.made[key] == "" {
		if templates.folder == "" {
			var err error
			if templates.folder, err = os.MkdirTemp("", "patchbay-sites"); err != nil {
				t.Fatal(err)
			}
			templates.made = map[string]string{}
		}
		dir := filepath.Join(templates.folder, fmt.Sprint(len(templates.made)))
		if code, out := tell(t, "init", "--authority", "testbed.example.org", "--listen", "127.0.0.1:0", dir); code != 0 {
			t.Fatalf("init: %d\n%s", code, out)
		}
		for _, args := range commands {
			if code, out := tell(t, append(args, "--config", dir)...); code != 0 {
				t.Fatal(out)
			}
		}
		templates.made[key] = dir
	}
	dir := filepath.Join(t.TempDir(), "site")
	if err := execute("cp", "-a", templates.made[key], dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func edit(t testing.TB, file, old, new string) {
	t.Helper()
	text := readFile(t, file)
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCommandLineMistakesSayWhatToDo(t *testing.T) {
	tell(t, "version") // builds our programs, before we leave the module
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, args string
		code       int
		want       string
	}{
		{"UnknownCommand", "srve", 2, `there is no command "srve"; did you mean "serve"?`},
		{"UnknownFlag", "serve --colour", 2, "see: patchbay serve --help"},
		{"SuperfluousArgument", "serve now", 2, `it takes no argument, not "now"`},
		{"InitWithoutFolder", "init", 2, "it takes one argument, the folder to make"},
		{"InitWithLoopbackAuthority", "init --authority localhost d", 2, "testbed.example.org"},
		{"InitWithBadAuthority", "init --authority a+b d", 2, "cannot name a site"},
		{"InitWithBadURL", "init --authority a --public-url http://a d", 2, "https://HOST:PORT"},
		{"InitWithPortOutOfRange", "init --authority a --public-url https://a:99999 d", 2, "ports are 1 to 65535"},
		{"InitWithPortOfNobody", "init --authority a --public-url https://a:0 d", 2, "ports are 1 to 65535"},
		{"InitListensOutOfRange", "init --authority a --listen :65536 d", 2, "ports are 1 to 65535"},
		{"ServeListensOutOfRange", "serve --listen :65536", 2, "ports are 1 to 65535"},
		{"InitSimulatedWithNetwork", "init --outbound yes d", 2, "needs nodes that exist"},
		{"InitUnknownProvider", "init --provider none d", 2, "init can set up local and simulated"},
		{"DemoOnNothing", "demo --provider none", 2, "neither local nor simulated"},
		{"ServeWithoutSite", "serve", 2, "patchbay init DIR"},
		{"ServeWithBadAddress", "serve --listen nowhere", 2, "HOST:PORT"},
		{"SliceWithoutOwner", "slice s1", 2, "--owner USER is missing"},
		{"SliceWithBadTime", "slice s1 --owner ann --expires soon", 2, "30d"},
		{"CallWithoutMethod", "call", 2, "patchbay call GetVersion"},
		{"CallNobody", "call GetVersion", 1, "--url https://HOST:PORT/am/3.0"},
		{"CallSiteThatIsNot", "call --config nowhere.yaml GetVersion", 2, "nowhere.yaml: there is no such file"},
		{"CallUnknownUser", "call --url https://127.0.0.1:1 --user nobody GetVersion", 1, "nobody: no such file"},
		{"CallNoServer", "call --url https://127.0.0.1:1 GetVersion", 1, "nothing listens at 127.0.0.1:1"},
		{"Version", "--version", 0, "patchbay "},
		{"CheckWithoutSite", "check", 1, "patchbay init DIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := tell(t, strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("something was written: %v", left)
	}
}
