package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"patchbay/cmd/patchbay/command"
)

// runCommand runs a command line in this process, and returns its exit status and all
// output.
func runCommand(t testing.TB, args ...string) (int, string) {
	t.Helper()
	dir, err := programs() // init needs patchbay-local
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(os.Getenv("PATH"), dir) {
		if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := run(t.Context(), args, command.Console{Out: &out, Err: &out})
	return code, out.String()
}

// newSite creates a site and returns its folder.
func newSite(t testing.TB) string {
	t.Helper()
	return newSiteWith(t)
}

// templates are sites created once, by init and further commands, since keys take
// seconds. Tests get copies.
var templates struct {
	sync.Mutex
	folder string // empty until the first site is created
	made   map[string]string
}

// newSiteWith returns the folder of a copy of a site on which some commands were run
// after init.
func newSiteWith(t testing.TB, commands ...[]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	newSiteAt(t, dir, []string{"init", "--authority", "testbed.example.org", "--listen", "127.0.0.1:0"}, commands...)
	return dir
}

// newSiteAt copies a site to dir that was created by init and some commands.
func newSiteAt(t testing.TB, dir string, init []string, commands ...[]string) {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	if err := execute("cp", "-a", siteTemplate(t, init, commands), dir); err != nil {
		t.Fatal(err)
	}
}

// siteTemplate returns the folder of a template. The last command runs on a copy of the template
// for the commands before it.
func siteTemplate(t testing.TB, init []string, commands [][]string) string {
	t.Helper()
	key := fmt.Sprint(init, commands)
	if made := templates.made[key]; made != "" {
		return made
	}
	if templates.folder == "" {
		var err error
		if templates.folder, err = os.MkdirTemp("", "patchbay-sites"); err != nil {
			t.Fatal(err)
		}
		templates.made = map[string]string{}
	}
	var from string
	args := init
	if n := len(commands) - 1; n >= 0 {
		from, args = siteTemplate(t, init, commands[:n]), append(slices.Clone(commands[n]), "--config")
	}
	made := filepath.Join(templates.folder, fmt.Sprint(len(templates.made)))
	if from != "" {
		if err := execute("cp", "-a", from, made); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := runCommand(t, append(slices.Clone(args), made)...); code != 0 {
		t.Fatalf("%q: %d\n%s", args, code, out)
	}
	templates.made[key] = made
	return made
}

func wantTexts(t testing.TB, text string, parts ...string) {
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
	write(t, file, strings.Replace(text, old, new, 1))
}
