package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
	"patchbay/cmd/patchbay/command"
	"patchbay/rspec/compile"
)

// setupSite is a site with room for many real nodes, and alice's client for it.
type setupSite struct {
	*localSite
	client *client.Client
	alice  client.User
}

func newSetupSite(t testing.TB, slices ...string) *setupSite {
	t.Helper()
	s := &setupSite{localSite: newLocalSite(t, "setup.example.org")}
	inventory := filepath.Join(s.dir, "inventory.yaml")
	program.Write(t, inventory, regexp.MustCompile(`(?m)^    capacity: .*$`).ReplaceAllString(program.ReadFile(t, inventory), "    capacity: {slots: 1000, memory: 1T, disk: 10T}"))
	program.Write(t, filepath.Join(s.dir, site.PolicyName), string(create.SamplePolicy)) // no limits
	s.start()
	s.createUsers(slices...)
	s.alice = client.User{URN: "urn:publicid:IDN+setup.example.org+user+alice", Keys: []string{strings.TrimSpace(program.ReadFile(t, filepath.Join(s.dir, site.UsersDir, "alice", "id_ed25519.pub")))}}
	s.connect(t)
	return s
}

// connect makes alice's client for the server, which has another address after each start.
func (s *setupSite) connect(t testing.TB) {
	t.Helper()
	alice := filepath.Join(s.dir, site.UsersDir, "alice")
	var err error
	if s.client, err = client.New(client.Config{URL: s.url + "/am/3.0", CertFile: filepath.Join(alice, "alice-cert.pem"), KeyFile: filepath.Join(alice, "alice-key.pem")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
}

// offer returns what compilers know of the site.
func (s *setupSite) offer(t testing.TB) compile.Options {
	t.Helper()
	config, err := site.ReadConfig(filepath.Join(s.dir, site.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	offer, err := command.OfferOf(config)
	if err != nil {
		t.Fatal(err)
	}
	return offer
}

// setupSlice is a slice of alice.
type setupSlice struct {
	*setupSite
	t     testing.TB
	urn   string
	creds []client.Credential
}

func (s *setupSite) slice(t testing.TB, name string) *setupSlice {
	t.Helper()
	credential := program.ReadFile(t, filepath.Join(s.dir, site.UsersDir, "alice", "slices", name+"-cred.xml"))
	return &setupSlice{s, t, "urn:publicid:IDN+setup.example.org+slice+" + name, []client.Credential{{Text: credential}}}
}

// provision allocates and provisions the nodes of a request, and returns the manifest.
func (x *setupSlice) provision(request string) (manifest string) {
	x.t.Helper()
	_, _, err := x.client.Allocate(x.t.Context(), x.urn, x.creds, request, client.Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	a, _, err := x.client.Provision(x.t.Context(), []string{x.urn}, x.creds, client.Options{Users: []client.User{x.alice}})
	if err != nil {
		x.t.Fatal(err)
	}
	return a.RSpec
}

// create provisions and starts the nodes of a request, and returns the manifest.
func (x *setupSlice) create(request string) (manifest string) {
	x.t.Helper()
	manifest = x.provision(request)
	x.act(am.ActionStart)
	return manifest
}

// act carries out an action on all nodes.
func (x *setupSlice) act(action am.Event) {
	x.t.Helper()
	if _, _, err := x.client.PerformOperationalAction(x.t.Context(), []string{x.urn}, x.creds, string(action), client.Options{}); err != nil {
		x.t.Fatal(err)
	}
}

func byNode(list []client.Sliver) map[string]client.Sliver {
	all := map[string]client.Sliver{}
	for _, s := range list {
		all[s.ClientID] = s
	}
	return all
}

// awaitReady waits until all slivers are ready, and returns them by node. It polls as seldom as
// clients do, since the status of many nodes takes time that the nodes then lack.
func (x *setupSlice) awaitReady() map[string]client.Sliver {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), wait.Limit(x.t))
	defer cancel()
	list, err := client.Wait(ctx, x.client.StatusOf([]string{x.urn}, x.creds), client.Running, nil)
	if err != nil {
		x.t.Fatalf("%v: %+v", err, list)
	}
	return byNode(list)
}

// awaitSetUp waits until all slivers are ready. It fails unless all their steps are done.
func (x *setupSlice) awaitSetUp() map[string]client.Sliver {
	x.t.Helper()
	all := x.awaitReady()
	for name, s := range all {
		if s.Error != "" || slices.ContainsFunc(s.Services, func(v client.Service) bool { return v.State != string(am.StepDone) }) {
			x.t.Errorf("%s is ready, but not set up: %q, %+v", name, s.Error, s.Services)
		}
	}
	return all
}

// delete deletes the slivers, and waits until the nodes are gone.
func (x *setupSlice) delete() {
	x.t.Helper()
	if _, _, err := x.client.Delete(x.t.Context(), []string{x.urn}, x.creds, client.Options{}); err != nil {
		x.t.Fatal(err)
	}
	wait.Until(x.t, "the nodes are gone", func() bool { return !strings.Contains(x.local("list", "--json"), x.urn) })
}

// logins returns the logins of the slice's nodes.
func (x *setupSlice) logins() map[string]login {
	x.t.Helper()
	a, _, err := x.client.Describe(x.t.Context(), []string{x.urn}, x.creds, client.Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	list, err := logins(a.RSpec)
	if err != nil {
		x.t.Fatal(err)
	}
	all := map[string]login{}
	for _, l := range list {
		all[l.node] = l
	}
	return all
}

// run runs a command in a node as alice, and returns its output.
func (x *setupSlice) run(at login, command string) string {
	x.t.Helper()
	out, err := x.ssh("alice", at, command)
	if err != nil {
		x.t.Errorf("%s: %s: %v", at.node, command, err)
	}
	return out
}

// threeTiers returns the request of the guide, which the commands of the guide create.
func threeTiers(t testing.TB) string {
	t.Helper()
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-eu", "-o", "pipefail", "-c", guideScript(t, "../guide/setup.md", "user"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program.ReadFile(t, filepath.Join(cmd.Dir, "three-tier.xml"))
}

// wantBalanced queries the balancer twice.
func (x *setupSlice) wantBalanced() {
	x.t.Helper()
	got := x.run(x.logins()["balancer"], `bash -c 'cat </dev/tcp/127.0.0.1/80; cat </dev/tcp/127.0.0.1/80'`)
	answers := slices.Sorted(strings.Lines(got)) // the server may have been asked before
	if want := []string{"web1: database: red, green and blue\n", "web2: database: red, green and blue\n"}; !slices.Equal(answers, want) {
		x.t.Errorf("the balancer answers %q, want %q", answers, want)
	}
}

// TestOnHostSetup runs the experiment of the guide "setup" on real nodes.
func TestOnHostSetup(t *testing.T) {
	t.Parallel() // it mostly waits
	x := newSetupSite(t, "tiers").slice(t, "tiers")
	x.create(threeTiers(t))
	all := x.awaitSetUp()
	steps := 0
	for _, v := range all {
		steps += len(v.Services)
	}
	if steps != 9 {
		t.Errorf("%d steps are reported, not 9", steps)
	}
	x.wantBalanced()
	x.delete()
}
