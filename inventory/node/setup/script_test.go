package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
	plan "patchbay/rspec/step"
)

// addAlice adds an account to the node, with a home.
func addAlice(t *testing.T, dir string) account {
	t.Helper()
	user := alice(t)
	openToAll(t, dir)
	for name, line := range map[string]string{
		"passwd": fmt.Sprintf("alice:x:%d:%d::%s:/bin/sh\n", user.uid, user.gid, user.home),
		"group":  fmt.Sprintf("db:x:%d:bob,alice\nweb:x:%d:bob\n", user.gid+1, user.gid+2),
	} {
		path := filepath.Join(dir, "etc", name)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeTestFile(t, path, string(old)+line)
	}
	return user
}

// runStep runs an attempt of a step to its end.
func runStep(t *testing.T, dir string, n int, o Assignment) Report {
	t.Helper()
	if r, _ := startAttempt(t, dir, n, o); r.State != Running {
		t.Fatalf("%+v", r)
	}
	return waitForStep(t, dir, n)
}

func dataURL(content string) string {
	return "data:," + strings.NewReplacer("%", "%25", "\n", "%0A", "#", "%23", "?", "%3F").Replace(content)
}

func TestEnvironmentAndUser(t *testing.T) {
	dir := newNode(t)
	user := addAlice(t, dir)
	ids := fmt.Sprintf("%d %d %d\n", user.uid, user.gid, user.gid+1)
	for i, tt := range []struct {
		rule string
		o    Assignment
		want Report
	}{
		{"variables", Assignment{Step: Step{Kind: Execute, Shell: "sh", Command: `printf '%s|' "$db_name" "$SOURCE_port" "$USER"`,
			Environment: map[string]string{"db_name": "a b\nc", "SOURCE_port": ""}}}, Report{State: Done, Output: "a b\nc||root|"}},
		{"without the variables of the testbed", Assignment{Step: shellStep(`env | grep -c SETUP_TEST`)},
			Report{State: Failed, Exit: 1, Message: "the command ended with status 1", Output: "0\n"}},
		{"the first account", Assignment{Account: "alice", Step: Step{Kind: Execute, Shell: "sh", AsUser: true,
			Command: `echo $(id -u) $(id -G); echo $HOME $USER $LOGNAME $SHELL $PWD; test -w /root || echo no rights`}},
			Report{State: Done, Output: ids + user.home + " alice alice /bin/sh " + user.home + "\nno rights\n"}},
		{"root with the first account's home", Assignment{Account: "alice", Step: shellStep(`echo $(id -u) $USER`)}, Report{State: Done, Output: "0 alice\n"}},
		{"no account", Assignment{Step: Step{Kind: Execute, Shell: "sh", AsUser: true, Command: "touch " + dir + "/ran"}},
			Report{State: Failed, Exit: 126, Message: "it must run as the first account, and the node has no account"}},
		{"an account that does not exist", Assignment{Account: "bob", Step: Step{Kind: Execute, Shell: "sh", AsUser: true, Command: "touch " + dir + "/ran"}},
			Report{State: Failed, Exit: 126, Message: "it must run as the first account: there is no account bob"}},
		{"too much for the kernel", Assignment{Step: Step{Kind: Execute, Shell: "sh", Command: "true", Environment: map[string]string{"a": strings.Repeat("x", maxVariable-2)}}}, Report{State: Done}},
	} {
		got := runStep(t, dir, i+1, tt.o)
		if tt.want.Exit == 126 {
			got.Output = ""
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, got, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command ran as another user")
	}
}

// A step in the background is done as soon as it runs. Its output and its processes stay.
func TestBackgroundStep(t *testing.T) {
	dir := newNode(t)
	yes := true
	step := Step{Kind: Execute, Shell: "sh", Background: &yes, Command: "until test -e " + dir + "/go; do sleep 0.01; done; echo later; exit 3"}
	if r := runStep(t, dir, 1, Assignment{Step: step}); r != (Report{State: Done}) {
		t.Errorf("%+v", r)
	}
	if r := runStep(t, dir, 2, Assignment{Step: shellStep("echo beside")}); r.Output != "beside\n" {
		t.Errorf("the next step: %+v", r)
	}
	writeTestFile(t, filepath.Join(dir, "go"), "")
	wait.Until(t, "the log has no later output", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "log", "1-execute.log"))
		return string(text) == "later\n"
	})
	if r := waitForStep(t, dir, 1); r != (Report{State: Done}) {
		t.Errorf("after its end: %+v", r)
	}
	step.Shell, step.Script, step.Command = "", "x", ""
	step.Files = []plan.File{{URL: dataURL("#!/nowhere/sh\n"), Path: "x"}}
	if r := runStep(t, dir, 3, Assignment{Step: step}); r.State != Failed || r.Exit != exitNotFound {
		t.Errorf("one that cannot start: %+v", r)
	}
}

// T11: the entry of a script runs in a folder of its own, beside its helpers.
func TestT11Scripts(t *testing.T) {
	dir := newNode(t)
	user := addAlice(t, dir)
	files := []plan.File{
		{URL: dataURL("#!/bin/sh\necho configure \"$port\" $(id -u)\n. ../helpers/lib.sh\n../helpers/run\ncat ../data\n"), Path: "scripts/MySQL/configure.sh"},
		{URL: dataURL("echo lib\n"), Path: "scripts/helpers/lib.sh"},
		{URL: dataURL("#!/bin/sh\necho run\n"), Path: "scripts/helpers/run"},
		{URL: dataURL("50%\n"), Path: "scripts/data"},
	}
	const output = "lib\nrun\n50%\n"
	enter := "cd scripts/MySQL && ./configure.sh; pwd; ls -A; cat\n"
	entry := append(files[:4:4], plan.File{URL: dataURL(enter), Path: "enter"})
	script := func(shell, path string, files []plan.File) Step {
		return Step{Kind: Execute, Shell: shell, Script: path, Files: files, Environment: map[string]string{"port": "80"}}
	}
	for i, tt := range []struct {
		rule   string
		o      Assignment
		exit   int
		output string
	}{
		{"by a shell", Assignment{Step: script("sh", "enter", entry)}, 0,
			"configure 80 0\n" + output + filepath.Join(dir, "lib/scripts/1-0/scripts/MySQL") + "\nconfigure.sh\n"},
		{"as the first account", Assignment{Account: "alice", Step: func() Step { s := script("bash", "enter", entry); s.AsUser = true; return s }()}, 0,
			fmt.Sprintf("configure 80 %d\n", user.uid) + output + filepath.Join(dir, "lib/scripts/2-0/scripts/MySQL") + "\nconfigure.sh\n"},
		{"by its own first line", Assignment{Step: script("", "x", []plan.File{{URL: dataURL("#!/bin/sh -e\necho $0; pwd; false; echo more\n"), Path: "x"}})}, 1,
			filepath.Join(dir, "lib/scripts/3-0/x") + "\n" + filepath.Join(dir, "lib/scripts/3-0") + "\n"},
		{"without such a line", Assignment{Step: script("", "x", []plan.File{{URL: dataURL("echo x\n"), Path: "x"}})}, 126, "does not begin with #!"},
		{"an interpreter that does not exist", Assignment{Step: script("", "x", []plan.File{{URL: dataURL("#!/nowhere/perl\n"), Path: "x"}})}, 127, ""},
		{"a file that cannot be fetched", Assignment{Step: script("sh", "x", []plan.File{{URL: "data:", Path: "x"}})}, 126, "the file x: the data: url has no comma"},
		{"an empty script", Assignment{Step: script("sh", "x", []plan.File{{URL: "data:,", Path: "x"}})}, 0, ""},
	} {
		r := runStep(t, dir, i+1, tt.o)
		if r.Exit != tt.exit || (r.State == Done) != (tt.exit == 0) || r.Output != tt.output && (tt.exit <= 1 || !strings.Contains(r.Output, tt.output)) {
			t.Errorf("%s: %+v, want %q", tt.rule, r, tt.output)
		}
	}
	// A later attempt gets an empty folder.
	step := script("sh", "x", []plan.File{{URL: dataURL("ls -A; touch left; exit 1\n"), Path: "x"}})
	for attempt := range 3 {
		if r := runStep(t, dir, 20, Assignment{Step: step, Attempt: attempt}); r.Output != "x\n" {
			t.Errorf("attempt %d: %+v", attempt, r)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "lib/scripts/20-*")); len(left) != 1 || filepath.Base(left[0]) != "20-2" {
		t.Errorf("left are %v", left)
	}
}

func TestUserData(t *testing.T) {
	dir := newNode(t)
	const data = "#cloud-config\npackages: [jq]\n"
	o := Assignment{Step: Step{Kind: UserData, URL: dataURL(data)}}
	if r := runStep(t, dir, 1, o); r.State != Failed || r.Exit != exitNotFound || !strings.Contains(r.Message, "has no cloud-init") {
		t.Errorf("without cloud-init: %+v", r)
	}
	calls := filepath.Join(dir, "calls")
	seed := filepath.Join(dir, "cloud/seed/nocloud")
	writeTestFile(t, filepath.Join(dir, "cloud-init"), "#!/bin/sh\necho \"$@\" >>"+calls+"; cat "+seed+"/user-data >&2; test \"$*\" != \"$(cat "+dir+"/fail)\"\n")
	if err := os.Chmod(filepath.Join(dir, "cloud-init"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, filepath.Join(dir, "fail"), "")
	stages := "init --local\ninit\nmodules --mode=config\nmodules --mode=final\n"
	var instances []string
	for _, tt := range []struct {
		rule, fail string
		attempt    int
		want       Report
	}{
		{"all stages", "", 1, Report{State: Done, Attempt: 1, Output: strings.Repeat(data, 4)}},
		{"a stage that fails", "modules --mode=config", 2, Report{State: Failed, Attempt: 2, Exit: 1, Message: "the command ended with status 1", Output: strings.Repeat(data, 4)}},
	} {
		os.Remove(calls)
		writeTestFile(t, filepath.Join(dir, "fail"), tt.fail)
		o.Attempt = tt.attempt
		if r := runStep(t, dir, 1, o); r != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, r, tt.want)
		}
		if got, _ := os.ReadFile(calls); string(got) != stages {
			t.Errorf("%s: the calls are %q", tt.rule, got)
		}
		meta, err := os.ReadFile(filepath.Join(seed, "meta-data"))
		id, rest, _ := strings.Cut(string(meta), "\n")
		if err != nil || !strings.HasPrefix(id, "instance-id: patchbay-1-") || !strings.HasPrefix(rest, "local-hostname: ") {
			t.Errorf("%s: the meta-data are %q, %v", tt.rule, meta, err)
		}
		instances = append(instances, id)
	}
	if instances[0] == instances[1] {
		t.Errorf("cloud-init would do nothing in the second attempt: %q", instances)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "etc/cloud/cloud.cfg.d/99-patchbay.cfg")); !strings.Contains(string(text), "network: {config: disabled}") {
		t.Errorf("cloud-init would change the network: %q", text)
	}
	if text, err := json.Marshal(o); err != nil || !strings.Contains(string(text), `"userdata"`) {
		t.Errorf("%s, %v", text, err)
	}
}
