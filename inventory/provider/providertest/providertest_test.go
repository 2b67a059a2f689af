package providertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

var options = Options{
	Node: provider.Resource{provider.AttrComponent: "pc1"},
	Wait: 100 * time.Millisecond,
	Poll: 20 * time.Millisecond,
}

// example copies the shell example of PROVIDER.md to a folder where it can run.
func example(t *testing.T) string {
	t.Helper()
	return exampleOf(t, "jq", "rack.prov", "rack.yaml")
}

// exampleOf copies the files of an example, which needs a tool, to a folder where they
// can run.
func exampleOf(t *testing.T, tool string, files ...string) string {
	t.Helper()
	require.Tool(t, tool)
	if tool == "python3" {
		require.FastPython()
	}
	dir := t.TempDir()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0])
}

func TestExamplesPass(t *testing.T) {
	for name, path := range map[string]func(t *testing.T) string{
		"rack":  example,
		"power": func(t *testing.T) string { return exampleOf(t, "python3", "power.prov") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := path(t)
			p, err := provider.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range Life(t.Context(), p, options) {
				// The example is minimal, so it lacks optional parts.
				if !f.Note || !strings.Contains(f.Text, "is missing, so ") {
					t.Errorf("%v", f)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), name+".nodes", "*")); len(left) != 0 {
				t.Errorf("nodes are left: %v", left)
			}
		})
	}
}

func TestPageShowsExamples(t *testing.T) {
	page, err := os.ReadFile("../PROVIDER.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, language := range map[string]string{"power.prov": "python", "rack.prov": "sh", "rack.yaml": "yaml"} {
		text, err := os.ReadFile(filepath.Join("../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(page), "\n```"+language+"\n"+string(text)+"```\n") != 1 {
			t.Errorf("PROVIDER.md does not show testdata/%s as it is, in one block of %s", name, language)
		}
	}
}

func TestDescribeOfPageIsValid(t *testing.T) {
	page, err := os.ReadFile("../PROVIDER.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "ral_action=describe\nprovider:\n")
	text, _, ok2 := strings.Cut(after, "```\n")
	if !ok || !ok2 {
		t.Fatal("PROVIDER.md shows no answer to describe")
	}
	text = strings.Replace(text, "[jq, ipmitool]", "[sh]", 1) // of any host
	path := filepath.Join(t.TempDir(), "rack.prov")
	script := "#!/bin/sh\ncat <<'END'\nprovider:\n" + text + "END\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := provider.Open(path, nil)
	if err != nil || p.Parallel != 4 || p.Cleaning != 2*time.Minute || !p.Has(provider.AttrState) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestRulesAreHeadingsOfPage checks that each rule is a heading of PROVIDER.md.
func TestRulesAreHeadingsOfPage(t *testing.T) {
	page, err := os.ReadFile("../PROVIDER.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{ruleFiles, ruleCalls, ruleGet, ruleSet, ruleNoop, ruleState, ruleErrors, ruleAttributes, ruleCapabilities, ruleInterfaces, ruleServices, ruleStages, ruleInPlace} {
		if !strings.Contains(string(page), "\n## "+rule+"\n") && !strings.Contains(string(page), "\n### "+rule+"\n") {
			t.Errorf("PROVIDER.md has no heading %q", rule)
		}
	}
}

func TestGoodProviderHasNoFindings(t *testing.T) {
	var steps []string
	o := options
	o.Progress = func(step string) { steps = append(steps, step) }
	p := installProgram(t, "", "", "")
	if got := testLife(t, p, "", o); len(got) != 0 {
		t.Errorf("findings: %v", got)
	}
	for _, want := range []string{"make dry runs", "create the node", "create the node again", "remove one account", "remove the node, and kill the provider meanwhile", "remove the node again"} {
		if !slices.Contains(steps, want) {
			t.Errorf("%q is not among the steps %q", want, steps)
		}
	}
	if got := Check(t.Context(), p, Options{}); len(got) != 0 {
		t.Errorf("findings without a node: %v", got)
	}
	for name, fields := range map[string][2]string{
		"a cleaning time":     {"  parallel: 4\n", "  parallel: 4\n  cleaning: 24h\n"},
		"reserved attributes": {"    setup:", "    reload_serial: {}\n    setup:"},
	} {
		if got := Check(t.Context(), installDouble(t, "", fields[0], fields[1]), options); len(got) != 0 {
			t.Errorf("findings of one that declares %s: %v", name, got)
		}
	}
}

func TestRefusedRequestsAreNoFindings(t *testing.T) {
	for _, fault := range []string{"shapes nothing", "no operations"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if got := Life(t.Context(), installDouble(t, fault, "", ""), options); len(got) != 0 {
				t.Errorf("findings: %v", got)
			}
		})
	}
}

// standardError matches the finding about a line that a provider itself wrote. The records
// of the log about calls arrive in the same log, and must not count.
var standardError = regexp.MustCompile(`standard error has a warning or an error: "([^"]*)`)

// written has, by fault, the lines that the double writes to standard error. These faults also
// cause records in the log.
var written = map[string][]string{"bad state": nil, "get fails": {"out of order"}, "number": nil, "clings": nil, "floods": nil, "noop fails": {"no such option"}}

// removesAll are faults with which Life must still remove everything that it created.
var removesAll = []string{"", "never ready", "deaf", "fails", "once", "noop", "noop two", "noop many", "noop then fails"}

// testLife runs Life, and checks what it takes for standard error, and what it leaves behind.
func testLife(t *testing.T, p *provider.Provider, fault string, o Options) []Finding {
	t.Helper()
	got := Life(t.Context(), p, o)
	if lines, ok := written[fault]; ok {
		var said []string
		for _, f := range got {
			if m := standardError.FindStringSubmatch(f.Text); m != nil {
				said = append(said, m[1])
			}
		}
		if !slices.Equal(said, lines) {
			t.Errorf("findings say that it wrote %q, it wrote %q: %v", said, lines, got)
		}
	}
	if slices.Contains(removesAll, fault) {
		if all, err := p.Get(t.Context(), nil); err != nil || len(all) != 0 {
			t.Errorf("left behind: %v, %v", all, err)
		}
	}
	return got
}

// TestOneFaultIsOneFinding adds one fault at a time to the good provider.
func TestOneFaultIsOneFinding(t *testing.T) {
	for _, tt := range []struct{ fault, old, new, rule, says string }{
		{"get fails", "", "", ruleGet, "exit status 1"},
		{"ghost", "", "", ruleGet, "is an unused name; answer that it is absent"},
		{"denies", "", "", ruleGet, "an unused name fails: not there; answer that it is absent"},
		{"twice", "", "", ruleGet, `has the resource "a" twice`},
		{"few names", "", "", ruleGet, "a get of 1000 names, which is the maximum, fails"},
		{"hides", "", "", ruleGet, "a get of all resources leaves out"},
		{"keeps", "", "", ruleGet, "but a get by name reports it as absent"},
		{"bad state", "", "", ruleGet, `"up", which is not in enum[pending,changing,ready,failed]`},
		{"alone", "", "", ruleCalls, "one of several parallel gets fails"},
		{"clings", "", "", ruleCalls, "setsid ./install"},
		{"bare", "", "", ruleCalls, "a get that runs at the same time as the set fails"},
		{"torn", "", "", ruleFiles, "killed in the middle, and get then fails"},
		{"latched", "", "", ruleFiles, "killed in the middle, and the next one fails"},
		{"stuck", "set: 20s", "set: 4s", ruleFiles, "killed in the middle, and the next one fails"},

		{"", `power: {type: "enum[on,off]"}`, "power: {type: boolean}", ruleAttributes, "power is boolean and must be enum[on,off]"},
		{"", `login: {type: "array[string]", kind: r}`, `login: {type: "array[string]"}`, ruleAttributes, "login has kind rw and must have r"},
		{"", "    setup_stage: {}", "    setup_stage: {type: boolean}", ruleAttributes, "setup_stage is boolean and must be string"},
		{"", "    setup_stage: {}", "    setup_stage: {kind: w}", ruleAttributes, "setup_stage has kind w and must have rw"},
		{"", "    setup:", "    reload_serial: {kind: r}\n    setup:", ruleAttributes, "reload_serial has kind r and must have rw"},
		{"", "    component: {}\n", "", ruleAttributes, "component is missing"},
		{"no port", "", "", ruleAttributes, "login of"},
		{"open when off", "", "", ruleAttributes, "while the node is switched off"},
		{"no user", "", "", ruleAttributes, "proxy of"},
		{"no address", "", "", ruleInterfaces, `mac of interface "node0:if0" of`},

		{"odd capability", "", "", ruleCapabilities, `cpu.count: "many" is not a number; report each as feature=value`},
		{"bare capability", "", "", ruleCapabilities, `"fast" is not feature=value or feature=min..max`},

		{"no emulator", "", "", ruleInterfaces, `emulator of interface "node0:if0" of`},
		{"refuses properties", "", "", ruleInterfaces, "is refused with the kind failed"},
		{"few services", "", "", ruleServices, "was created with 8 services, but get reports 1"},
		{"odd services", "", "", ruleServices, "has no state, or cannot be read"},
		{"mixed services", "", "", ruleServices, "are not in the order of setup: item 1"},
		{"endless services", "", "", ruleServices, "have not ended after"},
		{"good services", "", "", ruleServices, "the command exit 7 is reported as done, with exit 0"},
		{"bad services", "", "", ruleServices, "the command true is reported as failed, with exit 7"},

		{"begins early", "", "", ruleStages, "setup_stage is 0, and step 3 of setup is done: begin a step only if its stage is not above setup_stage"},
		{"begins nothing", "", "", ruleStages, "setup_stage is 1, and step 3 of setup is waiting: when setup_stage grows, do the steps"},
		{"goes on", "", "", ruleStages, "begin stage 1: setup_stage is 1, and step 5 of setup is done: after a step of a later stage that fails, do no other"},
		{"repeats", "", "", ruleStages, "step 3 of setup is failed: do not repeat a step that is done"},
		{"repeats quietly", "", "", ruleStages, "step 3 of setup is done: do not repeat a step that is done"},
		{"repeats nothing", "", "", ruleStages, "step 4 of setup is failed: when setup_stage grows, repeat the failed steps"},
		{"ignores a fall", "", "", ruleStages, "setup_stage is 1, and step 6 of setup is running: when setup_stage falls, end the running steps"},
		{"accepts kinds", "", "", ruleStages, "a step of the unknown kind patchbay-check is accepted"},
		{"refuses kinds", "", "", ruleStages, "patchbay-check is refused with the kind failed"},
		{"refuses operations", "", "", ruleStages, "steps of the operations stop and uninstall are refused with the kind failed"},
		{"never stops", "", "", ruleStages, "the step of the operation stop, the command true, is waiting"},
		{"fails to uninstall", "", "", ruleStages, "the step of the operation uninstall, the command true, is failed"},

		{"runs it again", "", "", ruleInPlace, "keep the result of a step with the same JSON object"},
		{"keeps the order", "", "", ruleInPlace, "report steps in the new order"},
		{"adds no step", "", "", ruleInPlace, "the added step, the command true, is waiting"},

		{"noop", "", "", ruleNoop, "has really created"},
		{"noop two", "", "", ruleNoop, "has really created"},
		{"noop many", "", "", ruleNoop, "has really created 1000 nodes"},
		{"noop removes", "", "", ruleNoop, "has really changed"},
		{"noop fails", "", "", ruleNoop, "exit status 1"},
		{"noop mute", "", "", ruleNoop, "the answer has no change"},
		{"noop guesses", "", "", ruleNoop, `create the node: the dry run answered that power becomes "off", but in the real run it became "on"`},
		{"timid", "", "", ruleNoop, `add two accounts: the dry run answered the error "better not"`},
		{"picky", "", "", ruleNoop, "it refuses to create the node that this test uses: not today"},
		{"few updates", "", "", ruleNoop, "a dry run of 1000 updates, which is the maximum, fails"},
		{"forgets many", "", "", ruleNoop, "a dry run of 1000 updates reports nothing about 1000 of them"},

		{"", "parallel: 4", "parallel: 4\n  actions: [get]", ruleSet, "actions of the metadata leaves set out"},
		{"strict", "", "", ruleSet, "remove the node again: not there; removing a missing node must succeed"},
		{"once", "", "", ruleSet, "create the node again: it exists; a set of the state that the node already has must succeed"},
		{"none or all", "", "", ruleSet, "do every update that is possible"},
		{"mute", "", "", ruleSet, "the answer has no change"},
		{"tells less", "", "", ruleSet, "changes lack component"},
		{"tells other", "", "", ruleSet, `power is "on", but "off" was requested`},
		{"tells other past", "", "", ruleSet, `power was "off", but get reported "on"`},
		{"refuses", "", "", ruleSet, "not you"},
		{"empty", "", "", ruleSet, "none of changes, derive and error"},
		{"all or nothing", "", "", ruleErrors, "makes the whole call fail: one of them is wrong"},

		{"slow", "set: 20s", "set: 2s", ruleState, "set took more than"},
		{"unplugged", "", "", ruleState, "create the node: the node is ready, but get does not report map[interfaces:"},
		{"forgets", "", "", ruleState, "create the node: still absent"},
		{"never ready", "", "", ruleState, "still in state changing"},
		{"fails", "", "", ruleState, "the node is in state failed: no disk"},
		{"reports stage 0", "", "", ruleState, "begin stage 1: the node is ready, but get does not report map[setup_stage:1]"},
		{"deaf", "", "", ruleState, "restart the node: the node is ready, but"},
		{"hoards", "", "", ruleState, "remove one account: the node is ready, but"},
	} {
		t.Run(tt.fault+" "+tt.says, func(t *testing.T) {
			t.Parallel()
			o := options
			if tt.fault == "fails to uninstall" { // the node stays for a second, so that a slow host sees the failed step
				o.Wait = time.Minute
			}
			var wrong []Finding
			for _, f := range testLife(t, installDouble(t, tt.fault, tt.old, tt.new), tt.fault, o) {
				if !f.Note {
					wrong = append(wrong, f)
				}
			}
			if len(wrong) != 1 || wrong[0].Rule != tt.rule || !strings.Contains(wrong[0].Text, tt.says) {
				t.Errorf("findings %q, want one under %q that says %q", wrong, tt.rule, tt.says)
			}
		})
	}
}

// TestToleratedFaultsAreNotes does the same with harmless faults.
func TestToleratedFaultsAreNotes(t *testing.T) {
	for _, tt := range []struct{ fault, old, new, rule, says string }{
		{"", "    restart_serial: {}\n", "", ruleAttributes, "restart_serial is missing, so nodes cannot be restarted"},
		{"", "    change_serial: {}\n", "", ruleAttributes, "change_serial is missing, so links and steps of nodes that exist cannot change"},
		{"", "    proxy: {kind: r}\n", "    proxy: {kind: r}\n    colour: {}\n", ruleAttributes, "Patchbay does not use colour"},
		{"no services", "    services: {type: \"array[string]\", kind: r}\n", "", ruleServices, "services is missing, so users do not learn which steps of setup failed"},
		{"", "    setup_stage: {}\n", "", ruleStages, "setup_stage is missing, so nodes are refused whose steps need more than install and execute in one stage"},
		{"no shaping", "", "", ruleInterfaces, "no emulator is reported"},
		{"no endpoint", "", "", ruleAttributes, "no user can log in"},
		{"tells by name", "", "", ruleGet, "it cannot list all its resources: ask by name"},
		{"number", "", "", ruleGet, "put it into quotes"},
		{"undeclared", "", "", ruleGet, `"colour", which is ignored because the metadata do not declare it`},
		{"tells what is written", "", "", ruleGet, "write-only"},
		{"talks", "", "", ruleCalls, `"now at work"; a line counts as a warning`},
		{"floods", "", "", ruleCalls, "wrote too many lines to standard error; the rest is dropped; write less"},
		{"litters", "", "", ruleFiles, `"other.state" appeared`},
		{"odd kind", "", "", ruleErrors, `no kind "missing"`},
		{"no message", "", "", ruleErrors, "no message"},
		{"long message", "", "", ruleErrors, "2 lines"},
		{"rather slow", "set: 20s", "set: 4s", ruleState, "and its time limit is 4s"},
	} {
		t.Run(tt.fault+" "+tt.says, func(t *testing.T) {
			t.Parallel()
			got := testLife(t, installDouble(t, tt.fault, tt.old, tt.new), tt.fault, options)
			if len(got) != 1 || !got[0].Note || got[0].Rule != tt.rule || !strings.Contains(got[0].Text, tt.says) {
				t.Errorf("findings %q, want one note under %q that says %q", got, tt.rule, tt.says)
			}
		})
	}
}

// TestInterruptIsNoFinding interrupts a life in the middle, as Ctrl-C does.
func TestInterruptIsNoFinding(t *testing.T) {
	for _, at := range []string{"get all resources", "make dry runs", "create the node", "switch the node off", "remove the node, and kill the provider meanwhile"} {
		for _, after := range []time.Duration{0, 7 * time.Millisecond} {
			if after > 0 && !strings.Contains(at, "make") && !strings.Contains(at, "create") {
				continue
			}
			t.Run(fmt.Sprint(at, " ", after), func(t *testing.T) {
				t.Parallel()
				p := installDouble(t, "", "", "")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := options
				o.Progress = func(step string) {
					if step == at {
						time.AfterFunc(after, cancel)
					}
				}
				for _, f := range Life(ctx, p, o) {
					t.Errorf("finding: %v", f)
				}
				if ctx.Err() == nil {
					t.Fatal("it was not interrupted")
				}
				if all, err := p.Get(t.Context(), nil); err != nil || len(all) != 0 {
					t.Errorf("left behind: %v, %v", all, err)
				}
			})
		}
	}
}

func TestFailingDryRunsLeaveNothing(t *testing.T) {
	t.Parallel()
	const fault = "noop then fails"
	if got := testLife(t, installDouble(t, fault, "", ""), fault, options); len(got) == 0 {
		t.Error("no findings")
	}
}

// recorder is a T that records errors.
type recorder struct {
	*testing.T
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestRunReports(t *testing.T) {
	r := &recorder{T: t}
	Run(r, filepath.Join(t.TempDir(), "none.prov"), Options{})
	if len(r.errors) != 1 {
		t.Errorf("a provider that is not there: %q, want one error", r.errors)
	}
	r = &recorder{T: t}
	Run(r, installDouble(t, "denies", "", "").Path, options)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "an unused name fails: not there") {
		t.Errorf("a provider with one fault: %q, want one error", r.errors)
	}
}
