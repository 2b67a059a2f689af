package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/testkit/wait"
)

// TestPolicyAsAnOperatorSeesIt writes a policy for a site that is served, with
// mistakes and without, and asks what its users may do; they see it by calls.
func TestPolicyAsAnOperatorSeesIt(t *testing.T) {
	dir, site := lockable(t)
	file := filepath.Join(dir, "policy.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	explains := func(args []string, parts ...string) {
		t.Helper()
		code, out := site(append([]string{"check"}, args...)...)
		if code != 0 {
			t.Errorf("check %q: exit status %d", args, code)
		}
		has(t, out, parts...)
	}
	explains(nil, "policy.yaml: whom no rule fits may have all that the site's leases allow")
	explains([]string{"--user", "ann"}, "no rule is for urn:publicid:IDN+", "+user+ann in slices of projects that no rule names", "held now: nothing, for the site has not served yet")

	explains([]string{"--user", "ann", "--slice", "nosuch"}, `the trial authority has no slice "nosuch"; correct the name`)
	if _, out := site("check", "--user", "ann", "--slice", "first"); strings.Contains(out, "has no slice") {
		t.Errorf("a slice that is there is warned about:\n%s", out)
	}

	s := serve(t, dir, "--listen", "127.0.0.1:0")
	request := filepath.Join(dir, "request.xml") // a machine and a virtual one
	in := "first"
	call := func(args ...string) (int, string) {
		return tell(t, append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", in}, args...)...)
	}
	logged := func(what, text string, times int) {
		t.Helper()
		wait.Until(t, what, func() bool { return strings.Count(s.out.String(), text) >= times })
	}
	refused := func(parts ...string) {
		t.Helper()
		code, out := call("Allocate", request)
		if code != 1 {
			t.Errorf("Allocate: exit status %d", code)
		}
		has(t, out, append([]string{"REFUSED (7)"}, parts...)...)
	}

	write("policy.yaml", `rules: [{name: few, who: "**+user+a*", nodes: {user: 1}, lease: {first: 2h}, says: Ask your teacher.}]`)
	logged("a changed policy counts", "policy read", 2)
	refused(`rule "few" of this site allows at most 1 node for user ann at one time; 2 more than the 0 that are held are too many`, "Ask your teacher.")

	write("policy.yaml", `rules: [{name: few, nodse: {user: 100}}]`)
	logged("a mistake is logged", "the policy cannot be read; the rules that were in force stay so", 1)
	has(t, s.out.String(), `did you mean \"nodes\"?`)
	_, metrics := get(t, s.admin+"/metrics")
	has(t, metrics, "\npatchbay_policy_rules 1\n", "\npatchbay_policy_broken 1\n")
	refused(`rule "few"`)
	if code, out := site("check"); code != 1 || !strings.Contains(out, `policy.yaml:1: a rule has no key "nodse"; did you mean "nodes"?`) {
		t.Errorf("check: %d %s", code, out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	logged("a policy that is gone is logged", "the policy cannot be read; the rules that were in force stay so", 2)
	refused(`rule "few"`)
	write("policy.yaml", "")
	logged("an empty policy is a mistake", "the file is empty", 1)
	refused(`rule "few"`)

	// Terms, accepted by a line in a file.
	write("accepted", "# nobody yet\n")
	write("policy.yaml", `rules:
  - {name: guests, terms: {url: "https://testbed.example.org/terms", accepted: accepted}, nodes: {user: 3}, lease: {renew: 1d}}
  - {name: never, who: "**+user+ann"}
  - {name: far, who: "example.net+user+*"}
`)
	logged("mended, it counts", `nobody gets as far as this`, 1)
	_, metrics = get(t, s.admin+"/metrics")
	has(t, metrics, "\npatchbay_policy_rules 3\n", "\npatchbay_policy_broken 0\n")
	refused("[T&C-APPROVAL-MISSING]", "Accept them here: https://testbed.example.org/terms")
	explains([]string{"--user", "ann"}, "nothing new: [T&C-APPROVAL-MISSING]", `policy.yaml:2: rule "guests" decides for`)
	explains(nil, `policy.yaml:3: rule "never": nobody gets as far as this`, `policy.yaml:4: rule "far": example.net+user+* fits nobody: no trusted certificate`)
	reads := strings.Count(s.out.String(), "policy read")
	write("accepted", "urn:publicid:IDN+"+authorityOf(t, dir)+"+user+ann\n")
	logged("a changed list counts", "policy read", reads+1)
	if code, out := call("Allocate", request); code != 0 {
		t.Fatal(out)
	}
	explains([]string{"--user", "ann", "--slice", "first"}, "at most 3 nodes a user", "held now: by the user 2 nodes with 1 core and 16G of disk, in the slice 2 nodes with 1 core and 16G of disk, in its project 2 nodes with 1 core and 16G of disk")

	// What is held is known again after a restart, and refused beyond the limit.
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
	explains([]string{"--user", "ann"}, "held now: by the user 2 nodes")
	s = serve(t, dir, "--listen", "127.0.0.1:0")
	if code, out := site("slice", "second", "--owner", "ann"); code != 0 {
		t.Fatal(out)
	}
	in = "second"
	refused("at most 3 nodes for user ann", "more than the 2 that are held", "ask for at most 1")
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}

	write("policy.yaml", `rules: [{name: few, who: "**+user+a*", nodes: {user: 2}}]`)
	explains([]string{"--user", "ann", "--slice", "first"}, `nothing new: rule "few" of this site allows at most 2 nodes for user ann at one time; 1 more than the 2 that are held are too many: give some back first`,
		"at most 2 nodes a user", "held now: by the user 2 nodes")

	// A site does not start with a policy that it cannot read.
	write("policy.yaml", "rules: [{name: a, who: nobody}]\n")
	code, out := site("serve")
	if code == 0 || !strings.Contains(out, `policy.yaml:1: who: "nobody" is no pattern for users`) {
		t.Errorf("it serves all the same: %d %s", code, out)
	}
}

// TestPolicyCountsOnceItsListIsThere makes the list of a policy after the policy:
// nobody touches the policy again.
func TestPolicyCountsOnceItsListIsThere(t *testing.T) {
	dir, site := lockable(t)
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const failed = "the policy cannot be read; the rules that were in force stay so"
	write("policy.yaml", `rules: [{name: guests, terms: {url: "https://testbed.example.org/terms", accepted: accepted}}]`)
	wait.Until(t, "the missing list is logged", func() bool { return strings.Contains(s.out.String(), failed) })
	before := strings.Count(s.out.String(), "policy read")
	write("accepted", "# nobody yet\n")
	wait.Until(t, "the policy counts", func() bool { return strings.Count(s.out.String(), "policy read") > before })
	if n := strings.Count(s.out.String(), failed); n != 1 {
		t.Errorf("the missing list was logged %d times", n)
	}
	code, out := tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first", "Allocate", filepath.Join(dir, "request.xml"))
	if code != 1 || !strings.Contains(out, "[T&C-APPROVAL-MISSING]") {
		t.Errorf("who has not accepted gets in: %d %s", code, out)
	}
	if code, out := site("check"); code != 0 {
		t.Errorf("check: %d %s", code, out)
	}
}

// TestALinkThatLeadsNowhereOpensNoDoor has links where a served site looks for its
// rules and its lockdown.
func TestALinkThatLeadsNowhereOpensNoDoor(t *testing.T) {
	dir, site := lockable(t)
	policy, maintenance := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "maintenance.yaml")
	link := func(file string) {
		t.Helper()
		os.Remove(file)
		if err := os.Symlink(filepath.Join(dir, "gone.yaml"), file); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(file string) {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	const nowhere = "is a link to what is not there"
	link(policy)
	for _, command := range []string{"check", "serve"} {
		if code, out := site(command); code == 0 || !strings.Contains(out, nowhere) {
			t.Errorf("%s: %d %s", command, code, out)
		}
	}
	remove(policy)
	link(maintenance)
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	has(t, s.out.String(), nowhere, "the site starts locked down")
	remove(maintenance)
	locked := func() bool {
		_, out := tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "GetVersion")
		return strings.Contains(out, "patchbay_lockdown")
	}
	wait.Until(t, "without the link the site is open", func() bool { return !locked() })

	if code, out := site("lockdown", "power cut"); code != 0 {
		t.Fatal(out)
	}
	link(maintenance)
	wait.Until(t, "the link is logged", func() bool { return strings.Contains(s.out.String(), "what it said stays in force") })
	if !locked() {
		t.Error("a link that leads nowhere lifts the lockdown")
	}
	if code, out := site("lockdown", "--lift"); code != 1 || !strings.Contains(out, nowhere) {
		t.Errorf("lift: %d %s", code, out)
	}
	remove(maintenance)
	wait.Until(t, "without the link the lockdown is over", func() bool { return !locked() })
}

// TestAPipeHoldsNothingUp puts pipes where a served site reads, and nobody writes
// into them.
func TestAPipeHoldsNothingUp(t *testing.T) {
	dir, site := lockable(t)
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	for _, name := range []string{"maintenance.yaml", "policy.yaml"} {
		file := filepath.Join(dir, name)
		os.Remove(file)
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"the maintenance file cannot be read", "the policy cannot be read"} {
		wait.Until(t, "the pipe is logged", func() bool { return strings.Contains(s.out.String(), text) })
	}
	if code, out := site("lockdown", "x"); code != 1 || !strings.Contains(out, "it is not a regular file") {
		t.Errorf("lockdown: %d %s", code, out)
	}
	if err := os.Remove(filepath.Join(dir, "maintenance.yaml")); err != nil {
		t.Fatal(err)
	}
	if code, out := site("lockdown", "x"); code != 0 || !strings.Contains(out, "No new work is taken from now on.") {
		t.Errorf("lockdown without the pipe: %d %s", code, out)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
}

// authorityOf is the name of a site.
func authorityOf(t *testing.T, dir string) string {
	t.Helper()
	c, err := site.ReadConfig(filepath.Join(dir, site.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	return c.Authority
}

func TestPolicyThatIsNamedMustBeThere(t *testing.T) {
	dir := made(t)
	if err := os.Remove(filepath.Join(dir, "policy.yaml")); err != nil {
		t.Fatal(err)
	}
	code, out := tell(t, "check", "--config", dir)
	if code != 0 || !strings.Contains(out, "policy.yaml: there is none: everybody may have all that leases allow") {
		t.Errorf("by default: %d %s", code, out)
	}
	file := filepath.Join(dir, site.ConfigName)
	text := readFile(t, file)
	if err := os.WriteFile(file, []byte(text+"\npolicy: rules.yaml\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "serve"} {
		if code, out := tell(t, command, "--config", dir); code == 0 || !strings.Contains(out, "policy: the file ") || !strings.Contains(out, "rules.yaml does not exist") {
			t.Errorf("%s: %d %s", command, code, out)
		}
	}
}

func TestTheSamplePolicyFitsAFreshSiteWhenUncommented(t *testing.T) {
	dir, site := lockable(t)
	var text strings.Builder
	begun := false
	for line := range strings.Lines(string(create.SamplePolicy)) {
		begun = begun || strings.HasPrefix(line, "# rules:")
		if begun {
			text.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		}
	}
	explained := func(sample string, want ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(sample), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := site("check", filepath.Join(dir, "policy.yaml"))
		if code != 0 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, want...)
	}
	explained(text.String(), `rule "guests", for example.net:**+user+*: nothing new: This site is for members`, `rule "students", for example.org:course-*+user+*`, "whom no rule fits may have nothing")

	// What has two signs needs a file first.
	if err := os.WriteFile(filepath.Join(dir, "terms-accepted"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	all := strings.NewReplacer("# sliver_types:", "sliver_types:", "# components:", "components:", "# terms:", "terms:").Replace(text.String())
	explained(all, "only vm on only vm1..vm4", "once accepted https://testbed.example.org/terms")
}

func TestCheckOfAUserNeedsOne(t *testing.T) {
	dir := made(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--slice", "first"}, "--slice goes with --user"},
		{[]string{"--user", "ann", "request.xml"}, "takes no FILE"},
		{[]string{"--user", "urn:publicid:IDN+a+slice+b"}, "is no user; give the URN of a user"},
		{[]string{"--user", "ann", "--slice", "a+b"}, "--slice: "},
	} {
		code, out := tell(t, append([]string{"check", "--config", dir}, tt.args...)...)
		if code == 0 || !strings.Contains(out, tt.want) {
			t.Errorf("%q: %d %s", tt.args, code, out)
		}
	}
}
