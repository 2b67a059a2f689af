package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local"
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
	write(t, inventory, regexp.MustCompile(`(?m)^    capacity: .*$`).ReplaceAllString(readFile(t, inventory), "    capacity: {slots: 1000, memory: 1T, disk: 10T}"))
	write(t, filepath.Join(s.dir, site.PolicyName), string(create.SamplePolicy)) // no limits
	s.start()
	s.createUsers(slices...)
	alice := filepath.Join(s.dir, site.UsersDir, "alice")
	s.alice = client.User{URN: "urn:publicid:IDN+setup.example.org+user+alice", Keys: []string{strings.TrimSpace(readFile(t, filepath.Join(alice, "id_ed25519.pub")))}}
	var err error
	if s.client, err = client.New(client.Config{URL: s.url + "/am/3.0", CertFile: filepath.Join(alice, "alice-cert.pem"), KeyFile: filepath.Join(alice, "alice-key.pem")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// offer returns what compilers know of the site.
func (s *setupSite) offer(t testing.TB) compile.Options {
	t.Helper()
	config, err := site.ReadConfig(filepath.Join(s.dir, site.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	offer, err := offerOf(config)
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
	credential := readFile(t, filepath.Join(s.dir, site.UsersDir, "alice", "slices", name+"-cred.xml"))
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

// refused requests nodes that must be refused.
func (x *setupSlice) refused(request string) (am.Code, string) {
	x.t.Helper()
	_, reply, err := x.client.Allocate(x.t.Context(), x.urn, x.creds, request, client.Options{})
	if reply.Code == 0 {
		x.t.Fatalf("the request is accepted, or has no answer: %v\n%s", err, request)
	}
	return reply.Code, reply.Output
}

// act carries out an action on some nodes, or on all.
func (x *setupSlice) act(action am.Event, nodes ...string) {
	x.t.Helper()
	if _, _, err := x.client.PerformOperationalAction(x.t.Context(), x.urns(nodes), x.creds, string(action), client.Options{}); err != nil {
		x.t.Fatal(err)
	}
}

// urns returns the slivers of nodes; without nodes, the slice.
func (x *setupSlice) urns(nodes []string) (urns []string) {
	x.t.Helper()
	if len(nodes) == 0 {
		return []string{x.urn}
	}
	for _, s := range x.status() {
		if slices.Contains(nodes, s.ClientID) {
			urns = append(urns, s.URN)
		}
	}
	return urns
}

// status returns the slivers by node.
func (x *setupSlice) status() map[string]client.Sliver {
	x.t.Helper()
	a, _, err := x.client.Status(x.t.Context(), []string{x.urn}, x.creds, client.Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	return byNode(a.Slivers)
}

func byNode(list []client.Sliver) map[string]client.Sliver {
	all := map[string]client.Sliver{}
	for _, s := range list {
		all[s.ClientID] = s
	}
	return all
}

// awaitReady waits until all slivers are ready, and returns them by node. It asks as seldom as
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

// await waits until ok returns true for all slivers that nodes names, or for all.
func (x *setupSlice) await(what string, ok func(client.Sliver) bool, nodes ...string) (all map[string]client.Sliver) {
	x.t.Helper()
	wait.Clear(x.t, func() string {
		all = x.status()
		for name, s := range all {
			if (len(nodes) == 0 || slices.Contains(nodes, name)) && !ok(s) {
				return fmt.Sprintf("%s: %s is %s, %q, %q: %+v", what, name, s.Operational, s.Plan, s.Error, s.Services)
			}
		}
		return ""
	})
	return all
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

// delete deletes the slivers of some nodes, or all, and waits until the nodes are gone.
func (x *setupSlice) delete(nodes ...string) {
	x.t.Helper()
	if _, _, err := x.client.Delete(x.t.Context(), x.urns(nodes), x.creds, client.Options{}); err != nil {
		x.t.Fatal(err)
	}
	wait.Until(x.t, "the nodes are gone", func() bool {
		left := x.pids()
		for _, name := range nodes {
			if _, exists := left[name]; exists {
				return false
			}
		}
		return len(nodes) > 0 || len(left) == 0
	})
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

// pids returns the id of PID 1 of each node, as the host sees it.
func (x *setupSlice) pids() map[string]int {
	x.t.Helper()
	var list local.List
	if err := json.Unmarshal([]byte(x.local("list", "--json")), &list); err != nil {
		x.t.Fatal(err)
	}
	all := map[string]int{}
	for _, n := range list.Nodes {
		if n.SliceURN == x.urn {
			all[n.ClientID] = n.PID
		}
	}
	return all
}

// span is the time in which a step ran.
type span struct {
	node         string
	stage        int
	began, ended time.Time
}

// wantStages fails for the first step that began before all steps of earlier stages had ended. It
// returns the number of steps.
func wantStages(t testing.TB, all []span) int {
	t.Helper()
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.stage, b.stage) })
	var last, before span // the last to end, in all earlier stages, and with those of this one
	for i, s := range all {
		if i > 0 && s.stage > all[i-1].stage {
			before = last
		}
		if s.ended.Before(s.began) || s.began.IsZero() {
			t.Errorf("a step of stage %d ran on %s from %v to %v", s.stage, s.node, s.began, s.ended)
			break
		}
		if s.began.Before(before.ended) {
			t.Errorf("stage %d began on %s at %v, before stage %d ended on %s at %v", s.stage, s.node, s.began, before.stage, before.node, before.ended)
			break
		}
		if s.ended.After(last.ended) {
			last = s
		}
	}
	return len(all)
}

// reportedSpans returns the times in the status, which has whole seconds.
func reportedSpans(all map[string]client.Sliver) (spans []span) {
	for name, s := range all {
		for _, v := range s.Services {
			spans = append(spans, span{name, v.Stage, v.Began, v.Ended})
		}
	}
	return spans
}

func unixTime(t testing.TB, text string) time.Time {
	t.Helper()
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(int64(seconds * 1e6))
}

// journalSpans returns the times at which each node wrote down that a step began and ended.
func (x *setupSlice) journalSpans(all map[string]client.Sliver) (spans []span) {
	x.t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for name, at := range x.logins() {
		group.Go(func() {
			out := x.run(at, `sudo sh -c 'cd /var/lib/patchbay/services; for i in *.began; do stat -c %.Y $i ${i%.began}.status; done; ls *.began'`)
			words := strings.Fields(out)
			mu.Lock()
			defer mu.Unlock()
			if len(words) != 3*len(all[name].Services) {
				x.t.Errorf("the journal of %s does not have %d steps: %q", name, len(all[name].Services), out)
				return
			}
			for i := range len(words) / 3 {
				n, err := strconv.Atoi(strings.TrimSuffix(words[len(words)/3*2+i], ".began"))
				if err != nil {
					x.t.Error(err)
					return
				}
				spans = append(spans, span{name, all[name].Services[n-1].Stage, unixTime(x.t, words[2*i]), unixTime(x.t, words[2*i+1])})
			}
		})
	}
	group.Wait()
	return spans
}

// threeTiers returns the request of the guide, which the commands of the guide create.
func threeTiers(t testing.TB) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-eu", "-o", "pipefail", "-c", guideScript(t, "guide/setup.md", "user"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return readFile(t, filepath.Join(cmd.Dir, "three-tier.xml"))
}

// wantBalanced asks the balancer twice.
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
	x := newSetupSite(t, "tiers").slice(t, "tiers")
	x.create(threeTiers(t))
	all := x.awaitSetUp()
	if n := wantStages(t, reportedSpans(all)); n != 9 {
		t.Errorf("%d steps are reported, not 9", n)
	}
	wantStages(t, x.journalSpans(all))
	x.wantBalanced()
	x.delete()
}
