package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// script runs a script of testdata/script. It has a site and a server in this process.
type script struct {
	*testscript.TestScript
	t      testing.TB
	dir    string
	server *serverProcess
}

// scriptCommands are the commands of scripts besides those of testscript. Each prints all
// output to standard output. After !, a command must fail.
var scriptCommands = map[string]func(y *script, neg bool, args []string){
	// site [SLICE...] creates a site in $SITE with simulated nodes without delays, the user
	// alice and their slices, and changes to its folder. site -slivers creates one with
	// slivers in the slices first, second and frozen. site -examples adds the example
	// providers of PROVIDER.md.
	"site": func(y *script, _ bool, args []string) {
		switch {
		case slices.Equal(args, []string{"-examples"}):
			installExampleProviders(y.t, filepath.Join(y.dir, "providers"))
			return
		case slices.Equal(args, []string{"-slivers"}):
			y.dir = newSiteWithSlivers(y.t)
		default:
			var lines [][]string
			if len(args) > 0 {
				lines = append(lines, []string{"user", "alice"})
			}
			for _, name := range args {
				lines = append(lines, []string{"slice", name, "--owner", "alice"})
			}
			y.dir = program.NewSite(y.t, lines...)
			program.RemoveSimulatedDelays(y.t, y.dir)
		}
		y.Setenv("SITE", y.dir)
		y.Check(y.Chdir(y.dir))
		if key, err := os.ReadFile(filepath.Join(y.dir, "users", "alice", "id_ed25519.pub")); err == nil {
			y.Setenv("KEY", strings.TrimSpace(string(key)))
		}
	},
	// patchbay COMMAND... runs a command line, in the site's folder for the site. A usage
	// error is reported as exit status 2 on standard error.
	"patchbay": func(y *script, neg bool, args []string) { y.check("patchbay", neg, args) },
	// alice METHOD... makes a call as alice, about the slice first unless it names another.
	// With -portal before the method, a tool makes it that speaks for alice.
	"alice": func(y *script, neg bool, args []string) { y.check("alice", neg, args) },
	// serve [FLAG...] serves the site; after !, serve must fail. serve log prints the log of
	// the server. serve stop stops it, and prints its log.
	"serve": func(y *script, neg bool, args []string) {
		switch {
		case neg:
			fmt.Fprint(y.Stdout(), serveRefused(y.t, y.dir, args...))
		case slices.Equal(args, []string{"stop"}):
			if code := y.server.stop(); code != 0 {
				y.Fatalf("serve ended with %d:\n%s", code, y.server.out)
			}
			fallthrough
		case slices.Equal(args, []string{"log"}):
			fmt.Fprint(y.Stdout(), y.server.out)
		default:
			y.server = serve(y.t, y.dir, args...)
			y.Setenv("URL", y.server.url)
			y.Setenv("ADMIN", y.server.admin)
			y.Setenv("HOST", strings.TrimPrefix(y.server.url, "https://"))
		}
	},
	// until [-count=N] TEXT COMMAND... repeats a command until its output has the text;
	// after !, until it does not.
	"until": func(y *script, neg bool, args []string) {
		want := -1
		if text, ok := strings.CutPrefix(args[0], "-count="); ok {
			n, err := strconv.Atoi(text)
			y.Check(err)
			want, args = n, args[1:]
		}
		if args[0] == "" || want >= 0 && neg {
			y.Fatalf("until expects nothing: %q", args)
		}
		var out string
		wait.Clear(y.t, func() string {
			_, out = y.run(args[1], args[2:])
			n := strings.Count(out, args[0])
			if want >= 0 && n == want || want < 0 && n > 0 != neg {
				return ""
			}
			return fmt.Sprintf("%q occurs %d times in:\n%s", args[0], n, out)
		})
		fmt.Fprint(y.Stdout(), out)
	},
	// find NAME PATTERN sets $NAME to the first group of PATTERN in the output of the last
	// command.
	"find": func(y *script, _ bool, args []string) {
		out := y.ReadFile("stdout")
		m := regexp.MustCompile(args[1]).FindStringSubmatch(out)
		if m == nil {
			y.Fatalf("no %s in:\n%s", args[1], out)
		}
		y.Setenv(args[0], m[1])
	},
}

// installExampleProviders copies the example providers of PROVIDER.md into a folder, and
// returns the path of the one in shell.
func installExampleProviders(t testing.TB, dir string) string {
	t.Helper()
	require.Tool(t, "jq") // the examples need it
	require.Tool(t, "python3")
	for _, name := range []string{"rack.prov", "rack.yaml", "power.prov"} {
		text := program.ReadFile(t, filepath.Join("../../inventory/provider/testdata", name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "rack.prov")
}

// run runs a command of a script, and returns its exit status and output.
func (y *script) run(name string, args []string) (code int, out string) {
	home := filepath.Join(y.dir, "users", "alice")
	switch {
	case name == "serve":
		return 0, y.server.out.String()
	case name == "exec":
		err := y.Exec(args[0], args[1:]...)
		if out = y.ReadFile("stdout"); err != nil {
			code = 1
		}
		return code, out
	case name == "alice" && args[0] == "-portal":
		args = append([]string{"call", "--url", y.server.url, "--user", filepath.Join(y.dir, "tools", "portal"), "--speaking-for", "urn:publicid:IDN+testbed.example.org+user+alice",
			"--user", filepath.Join(home, "alice-usercred.xml"), "--slice", filepath.Join(home, "slices", "first-cred.xml"), "--user", filepath.Join(home, "id_ed25519.pub"), "--urns"}, args[1:]...)
	case name == "alice":
		args = append([]string{"call", "--url", y.server.url, "--user", home, "--slice", "first", "--urns"}, args...)
	default:
		free := []string{"call", "demo", "draw", "init", "login", "ssh", "version"}
		if y.dir != "" && y.MkAbs(".") == y.dir && !slices.Contains(free, args[0]) && !slices.Contains(args, "--config") {
			args = append(slices.Clone(args), "--config", y.dir)
		}
	}
	return runCommand(y.t, args...)
}

// check runs a command, prints its output and checks its exit status.
func (y *script) check(name string, neg bool, args []string) {
	code, out := y.run(name, args)
	fmt.Fprint(y.Stdout(), out)
	if code > 1 {
		fmt.Fprintf(y.Stderr(), "exit status %d\n", code)
	}
	if (code != 0) != neg {
		y.Fatalf("exit status %d:\n%s", code, out)
	}
}

// TestScripts runs the scripts of testdata/script: command lines as operators and
// experimenters type them.
func TestScripts(t *testing.T) {
	runCommand(t, "version")                // builds our programs, before scripts need them concurrently
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // for users' own sites
	p := testscript.Params{Dir: "testdata/script", WorkdirRoot: t.TempDir(), Setup: func(env *testscript.Env) error {
		env.Setenv("NL", "\n")
		env.Setenv("ESC", "\x1b")
		env.Values["story"] = &script{t: env.T().(testing.TB)}
		return nil
	}, Cmds: map[string]func(*testscript.TestScript, bool, []string){}}
	for name, run := range scriptCommands {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			y := ts.Value("story").(*script)
			y.TestScript = ts
			run(y, neg, args)
		}
	}
	testscript.Run(t, p)
}
