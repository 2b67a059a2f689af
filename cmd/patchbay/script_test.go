package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"patchbay/am/testkit/wait"
)

// script runs a script of testdata/script: it has a site, a server in this process, and
// the output of the last command.
type script struct {
	*testscript.TestScript
	t      testing.TB
	dir    string
	server *serverProcess
	out    string
}

// argumentCounts has the numbers of arguments of commands that do not accept any number.
// notNegatable are the commands that do not accept ! before them.
var (
	argumentCounts = map[string]int{"stock": 0, "nowhere": 0, "get": 1, "halt": 0, "like": 1, "facts": 2, "find": 2, "over": 0, "rack": 0, "ends": 1}
	notNegatable   = []string{"site", "stock", "nowhere", "misused", "halt", "facts", "find", "over", "rack", "edit", "write"}
)

// timeText is a time as commands print it.
var timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// scriptCommands are the commands of scripts beyond testscript's own. After ! a command
// must fail, or a text must be missing. Texts are compared exactly; texts after => must
// be in the output.
var scriptCommands = map[string]func(y *script, neg bool, args []string){
	// site [SLICE...] creates a site in $SITE with simulated nodes without delays, the
	// user alice and their slices, and changes to its folder.
	"site": func(y *script, _ bool, args []string) {
		var lines [][]string
		if len(args) > 0 {
			lines = append(lines, []string{"user", "alice"})
		}
		for _, name := range args {
			lines = append(lines, []string{"slice", name, "--owner", "alice"})
		}
		dir := newSiteWith(y.t, lines...)
		removeSimulatedDelays(y.t, dir)
		y.setSite(dir)
	},
	// stock creates a site with slivers in the slices first, second and frozen.
	"stock": func(y *script, _ bool, _ []string) { y.setSite(newSiteWithSlivers(y.t)) },
	// nowhere leaves the site: later commands use none.
	"nowhere": func(y *script, _ bool, _ []string) { y.dir = "" },
	// patchbay COMMAND... runs a command line, for the script's site unless it names
	// another.
	"patchbay": func(y *script, neg bool, args []string) { y.runAndCheck(negatedStatus[neg], "patchbay", args) },
	// misused COMMAND... runs a wrong command line, whose exit status must be 2.
	"misused": func(y *script, _ bool, args []string) { y.runAndCheck(2, "patchbay", args) },
	// alice METHOD... makes a call as alice, about the slice first unless it names
	// another.
	"alice": func(y *script, neg bool, args []string) { y.runAndCheck(negatedStatus[neg], "alice", args) },
	// portal METHOD... makes such a call as a tool that speaks for alice.
	"portal": func(y *script, neg bool, args []string) { y.runAndCheck(negatedStatus[neg], "portal", args) },
	// get PATH gets a path from the admin listener; any status but 200 is a failure.
	"get": func(y *script, neg bool, args []string) { y.runAndCheck(negatedStatus[neg], "get", args) },
	// serve [FLAG...] serves the site; after !, serve must fail.
	"serve": func(y *script, neg bool, args []string) {
		if neg {
			y.out = serveRefused(y.t, y.dir, args...)
			return
		}
		y.server = serve(y.t, y.dir, args...)
		y.Setenv("URL", y.server.url)
		y.Setenv("HOST", strings.TrimPrefix(y.server.url, "https://"))
	},
	// halt stops the server; its output is the log.
	"halt": func(y *script, _ bool, _ []string) {
		if code := y.server.stop(); code != 0 {
			y.Fatalf("serve ended with %d:\n%s", code, y.server.out)
		}
		y.out = y.server.out.String()
	},
	// says [-count=N] TEXT... requires texts in the output of the last command.
	"says": func(y *script, neg bool, args []string) {
		y.checkTexts(neg, args)
		if problem := findTexts(y.out, neg, args); problem != "" {
			y.Fatalf("%s in:\n%s", problem, y.out)
		}
	},
	// like PATTERN matches the output of the last command with a regular expression,
	// whose ^ and $ match at lines.
	"like": func(y *script, neg bool, args []string) {
		if regexp.MustCompile("(?m)"+args[0]).MatchString(y.out) == neg {
			y.Fatalf("%q matches: %v, in:\n%s", args[0], neg, y.out)
		}
	},
	// in FILE [-count=N] TEXT... requires texts in a file.
	"in": func(y *script, neg bool, args []string) {
		y.checkTexts(neg, args[1:])
		text := y.ReadFile(args[0])
		if problem := findTexts(text, neg, args[1:]); problem != "" {
			y.Fatalf("%s in %s:\n%s", problem, args[0], text)
		}
	},
	// log TEXT... waits until texts are in the server's log.
	"log": func(y *script, neg bool, args []string) {
		y.checkTexts(neg, args)
		log := func() string { return findTexts(y.server.out.String(), neg, args) }
		if neg {
			y.out = y.server.out.String()
			if problem := log(); problem != "" {
				y.Fatalf("%s in:\n%s", problem, y.out)
			}
			return
		}
		wait.Clear(y.t, log)
	},
	// until [-count=N] TEXT COMMAND... repeats a command until its output has the text;
	// after !, until it does not.
	"until": func(y *script, neg bool, args []string) {
		n := 1
		if strings.HasPrefix(args[0], "-count=") {
			n = 2
		}
		y.checkTexts(neg, args[:n])
		wait.Clear(y.t, func() string {
			y.run(args[n], args[n+1:])
			return findTexts(y.out, neg, args[:n])
		})
	},
	// facts MANIFEST MANIFEST requires that both manifests describe the same nodes.
	"facts": func(y *script, _ bool, args []string) {
		facts := func(file string) string { return nodeFacts(strings.ReplaceAll(y.ReadFile(file), "><", ">\n<")) }
		if was, is := facts(args[0]), facts(args[1]); was != is || was == "" {
			y.Fatalf("the manifest tells\n%s\nand told\n%s", is, was)
		}
	},
	// find NAME PATTERN sets $NAME to the first group of PATTERN in the output of the
	// last command.
	"find": func(y *script, _ bool, args []string) {
		m := regexp.MustCompile(args[1]).FindStringSubmatch(y.out)
		if m == nil {
			y.Fatalf("no %s in:\n%s", args[1], y.out)
		}
		y.Setenv(args[0], m[1])
	},
	// over waits until all times in the output of the last command have passed.
	"over": func(y *script, _ bool, _ []string) {
		moments := timeText.FindAllString(y.out, -1)
		if len(moments) == 0 {
			y.Fatalf("no time in:\n%s", y.out)
		}
		for _, text := range moments {
			at, err := time.Parse(time.RFC3339, text)
			y.Check(err)
			wait.Until(y.t, text+" is over", func() bool { return time.Now().After(at) })
		}
	},
	// rack installs the example providers of PROVIDER.md.
	"rack": func(y *script, _ bool, _ []string) { installExampleProviders(y.t, y.MkAbs("providers")) },
	// ends DURATION requires that the first time in the output of the last command is at
	// least so far ahead; after !, less.
	"ends": func(y *script, neg bool, args []string) {
		d, err := time.ParseDuration(args[0])
		y.Check(err)
		text := timeText.FindString(y.out)
		if end, err := time.Parse(time.RFC3339, text); err != nil || time.Until(end) < d != neg {
			y.Fatalf("it ends at %q, %v", text, err)
		}
	},
	// edit FILE OLD NEW... replaces the first OLD by lines.
	"edit": func(y *script, _ bool, args []string) {
		edit(y.t, y.MkAbs(args[0]), args[1], strings.Join(args[2:], "\n"))
	},
	// write FILE LINE... writes a file.
	"write": func(y *script, _ bool, args []string) {
		write(y.t, y.MkAbs(args[0]), strings.Join(args[1:], "\n")+"\n")
	},
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// setSite makes a folder the script's site.
func (y *script) setSite(dir string) {
	y.dir = dir
	y.Setenv("SITE", dir)
	y.Check(y.Chdir(dir))
	if key, err := os.ReadFile(filepath.Join(dir, "users", "alice", "id_ed25519.pub")); err == nil {
		y.Setenv("KEY", strings.TrimSpace(string(key)))
	}
}

// checkTexts fails for texts that match anything, such as an empty one.
func (y *script) checkTexts(neg bool, texts []string) {
	rest := texts
	if len(texts) > 0 && regexp.MustCompile(`^-\w+=`).MatchString(texts[0]) {
		if rest = texts[1:]; neg || !regexp.MustCompile(`^-count=\d+$`).MatchString(texts[0]) {
			y.Fatalf("%s cannot stand here", texts[0])
		}
	}
	if len(rest) == 0 || slices.Contains(rest, "") {
		y.Fatalf("%q expects nothing", texts)
	}
}

// findTexts returns which text is missing, or after ! present; "" if all are right.
func findTexts(in string, neg bool, texts []string) string {
	want := -1
	for _, text := range texts {
		if n, ok := strings.CutPrefix(text, "-count="); ok {
			want, _ = strconv.Atoi(n)
			continue
		}
		switch n := strings.Count(in, text); {
		case want >= 0 && n != want:
			return fmt.Sprintf("%q is there %d times, not %d", text, n, want)
		case neg && n > 0:
			return fmt.Sprintf("%q is there", text)
		case !neg && want < 0 && n == 0:
			return fmt.Sprintf("%q is missing", text)
		}
	}
	return ""
}

// run runs a command and stores its output.
func (y *script) run(command string, args []string) (code int) {
	switch command {
	case "get":
		if code, y.out = get(y.t, y.server.admin+args[0]); code == http.StatusOK {
			return 0
		}
		return 1
	case "alice":
		args = append([]string{"call", "--url", y.server.url, "--user", filepath.Join(y.dir, "users", "alice"), "--slice", "first", "--urns"}, args...)
	case "portal":
		alice := filepath.Join(y.dir, "users", "alice")
		args = append([]string{"call", "--url", y.server.url, "--user", filepath.Join(y.dir, "tools", "portal"), "--speaking-for", "urn:publicid:IDN+testbed.example.org+user+alice",
			"--user", filepath.Join(alice, "alice-usercred.xml"), "--slice", filepath.Join(alice, "slices", "first-cred.xml"), "--user", filepath.Join(alice, "id_ed25519.pub"), "--urns"}, args...)
	case "patchbay":
		free := []string{"call", "demo", "draw", "import", "init", "login", "ssh", "version"}
		if y.dir != "" && !slices.Contains(free, args[0]) && !slices.Contains(args, "--config") {
			args = append(slices.Clone(args), "--config", y.dir)
		}
	default:
		y.Fatalf("there is no command %s", command)
	}
	code, y.out = runCommand(y.t, args...)
	y.Logf("%s", y.out)
	return code
}

// negatedStatus is the expected exit status of a command with or without ! before it.
var negatedStatus = map[bool]int{true: 1}

// runAndCheck runs a command, checks its exit status, and requires the texts after =>.
func (y *script) runAndCheck(status int, command string, args []string) {
	var texts []string
	if i := slices.Index(args, "=>"); i >= 0 {
		args, texts = args[:i], args[i+1:]
		y.checkTexts(false, texts)
	}
	if code := y.run(command, args); code != status {
		y.Fatalf("exit status %d, want %d", code, status)
	}
	if problem := findTexts(y.out, false, texts); problem != "" {
		y.Fatalf("%s", problem)
	}
}

// checkVariables fails if a script uses a variable that is not set: testscript replaces
// it by an empty text, which is in any output.
func checkVariables(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		set := []string{"WORK", "SITE", "KEY", "URL", "HOST", "NL", "ESC"}
		script, _, _ := strings.Cut(readFile(t, file), "\n-- ")
		for line := range strings.Lines(script) {
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(regexp.MustCompile(`'[^']*'|^#.*`).ReplaceAllString(line, ""), -1) {
				if !slices.Contains(set, m[1]) {
					t.Errorf("%s: %s is not set: %s", file, m[0], line)
				}
			}
			if words := strings.Fields(line); len(words) > 1 && words[0] == "find" {
				set = append(set, words[1])
			}
		}
	}
}

// TestScripts runs the scripts of testdata/script: command lines as operators and
// experimenters type them.
func TestScripts(t *testing.T) {
	runCommand(t, "version") // builds our programs, before scripts need them concurrently
	checkVariables(t)
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
			said := args
			if i := slices.Index(args, "=>"); i >= 0 && name == "get" {
				said = args[:i]
			}
			if n, ok := argumentCounts[name]; ok && n != len(said) || neg && slices.Contains(notNegatable, name) {
				ts.Fatalf("%s is not used so: %q", name, args)
			}
			run(y, neg, args)
		}
	}
	testscript.Run(t, p)
}
