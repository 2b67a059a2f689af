package testbed

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
)

func executeStep(command string) string {
	return fmt.Sprintf(`{"kind":"execute","shell":"sh","command":%q}`, command)
}

func diskStep(mib int, path string) string {
	return fmt.Sprintf(`{"kind":"disk","size":%d,"fstype":"ext4","install_path":%q}`, mib, path)
}

func installStep(url, path string) string {
	return fmt.Sprintf(`{"kind":"install","url":%q,"install_path":%q}`, url, path)
}

// stepStates returns the reported steps of a node.
func (s *site) stepStates(name string) []steprunner.Step {
	s.t.Helper()
	var all []steprunner.Step
	for _, item := range s.get(name)[name].Services {
		var one steprunner.Step
		if err := json.Unmarshal([]byte(item), &one); err != nil {
			s.t.Fatalf("%s: %v", item, err)
		}
		all = append(all, one)
	}
	return all
}

// awaitSteps waits until all steps of the node have ended.
func (s *site) awaitSteps(name string) []steprunner.Step {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		all := s.stepStates(name)
		if len(all) > 0 && !slices.ContainsFunc(all, func(s steprunner.Step) bool { return !s.Ended() }) {
			return all
		}
		if time.Now().After(end) {
			s.t.Fatalf("steps go on: %+v", all)
		}
	}
}

// tarball returns a tar.gz archive of files.
func tarball(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRealSteps(t *testing.T) {
	s := newSite(t, "setup-r1", 42900)
	a, web := nodeName(1), nodeName(2)
	s.set(map[string]provider.Resource{web: s.newNode("web", "alice")})
	s.awaitSettled(web)
	n := s.newNode("a", "alice")
	// The installs come from a server inside the node, which its first install starts; before that,
	// only data: URLs work.
	n["setup"] = []string{
		installStep("data:,hello%20world", "~/from/data"),
		installStep("http://127.0.0.1:8000/tool.tgz", "/opt/tool"),
		installStep("http://127.0.0.1:8000/missing.tgz", "/opt/missing"),
		executeStep("cat /opt/tool/bin/tool; id -un; echo $HOME $USER $LOGNAME $PATH $LANG; pwd; stat -c %U ~/from ~/from/data/* /opt/tool/bin/tool; echo >&2 err"),
		executeStep("echo once >> /root/log; exit 3"),
		executeStep("sleep 1000 & echo in the background; cat"),
	}
	s.set(map[string]provider.Resource{a: n})
	var hits atomic.Int32
	archive := tarball(t, map[string]string{"bin/tool": "I am the tool\n"})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if r.URL.Path != "/tool.tgz" {
			http.NotFound(w, r)
			return
		}
		w.Write(archive)
	})}
	var l net.Listener
	for end := time.Now().Add(20 * time.Second); l == nil; time.Sleep(5 * time.Millisecond) {
		var err error
		if l, err = s.testbed.node(a).listenInside(t.Context(), "tcp", "127.0.0.1:8000", ""); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
	go server.Serve(l)
	defer server.Close()
	all := s.awaitSettled(a)
	got := s.awaitSteps(a)
	want := []struct {
		state         string
		exit          int
		message, says string
	}{
		{setup.Done, 0, "", ""},
		{setup.Done, 0, "", ""},
		{setup.Failed, 1, "404", ""},
		{setup.Done, 0, "", "I am the tool\nroot\n/home/alice alice alice " + "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin C.UTF-8\n/home/alice\nalice\nalice\nroot\nerr\n"},
		{setup.Failed, 3, "the command ended with status 3", ""},
		{setup.Done, 0, "", "in the background\n"},
	}
	for i, w := range want {
		g := got[i]
		if g.State != w.state || g.Exit != w.exit || !strings.Contains(g.Message, w.message) || w.says != "" && g.Output != w.says {
			t.Errorf("step %d: %+v, want %+v", i+1, g, w)
		}
	}
	if got := s.mustSSH(all[a], "alice", "cat from/data/*; cat /var/log/patchbay/6-execute.log; sudo cat /root/log"); got != "hello worldin the background\nonce" {
		t.Errorf("in the node: %q", got)
	}
	if got := len(s.stepStates(web)); got != 0 {
		t.Errorf("a node without setup has %d services", got)
	}
}

// The step ends with the node, and the next step runs.
func TestRealRestartWhileAStepRuns(t *testing.T) {
	s := newSite(t, "setup-r3", 43100)
	s.options.Settings.ServicesWait = 200 * time.Millisecond
	s.up()
	a := nodeName(1)
	n := s.newNode("a", "alice")
	n["setup"] = []string{executeStep("echo one >>/root/steps; exec sleep 1000"), executeStep("echo two >>/root/steps")}
	s.set(map[string]provider.Resource{a: n})
	is := s.awaitSettled(a)[a]
	wait.Until(t, "the first step runs", func() bool { return strings.TrimSpace(s.mustSSH(is, "alice", "sudo cat /root/steps; echo")) == "one" })
	s.set(map[string]provider.Resource{a: {"restart_serial": "1"}})
	is = s.awaitSettled(a)[a]
	steps := s.awaitSteps(a)
	if first, second := steps[0], steps[1]; first.State != setup.Done || first.Message != "it ended with the node, which was restarted" || second.State != setup.Done || second.Message != "" {
		t.Errorf("%+v", steps)
	}
	if got := s.mustSSH(is, "alice", "sudo cat /root/steps"); strings.TrimSpace(got) != "one\ntwo" {
		t.Errorf("it has done %q", got)
	}
}

// awaitStep waits until step i of a node, counted from 1, has a state.
func (s *site) awaitStep(name string, i int, state string) {
	s.t.Helper()
	wait.Holds(s.t, func() bool {
		all := s.stepStates(name)
		return len(all) >= i && all[i-1].State == state
	}, func() string { return fmt.Sprintf("step %d is not %s: %+v", i, state, s.stepStates(name)) })
}

func TestRealStagesAndOperations(t *testing.T) {
	s := newSite(t, "setup-r4", 43200)
	s.options.Settings.ServicesWait = 200 * time.Millisecond
	s.up()
	a := nodeName(1)
	n := s.newNode("a", "alice")
	log := func(stage int, word, operation, more string) string {
		item := stageStep(stage, "echo "+word+" >>/root/steps; "+more, "")
		if operation != "" {
			item = operationStep(stage, "echo "+word+" >>/root/steps; "+more, operation)
		}
		return item
	}
	n["setup"] = []string{
		log(0, "zero", "", ""),
		log(0, "start", "start", ""),
		log(1, "one", "", "[ -e /root/again ] || { touch /root/again; exit 3; }"),
		log(1, "later", "", ""),
		log(2, "forever", "", "echo so far; sleep 1000 & exec sleep 2000"),
		log(1, "stop", "stop", ""),
		stageStep(0, "exec 3<>/dev/tcp/127.0.0.1/8000; echo bye >&3; cat <&3", `,"operation":"uninstall"`),
	}
	n["setup"].([]string)[6] = strings.Replace(n["setup"].([]string)[6], `"sh"`, `"bash"`, 1)
	stage := func(number string, step int, state string) {
		t.Helper()
		s.set(map[string]provider.Resource{a: {"setup_stage": number}})
		s.awaitStep(a, step, state)
	}
	s.set(map[string]provider.Resource{a: n})
	s.awaitStep(a, 2, setup.Done)
	stage("1", 3, setup.Failed)
	if got := s.stepStates(a); got[3].State != setup.Waiting || got[2].Exit != 3 || got[2].BeganAt.IsZero() || got[2].EndedAt.Before(got[2].BeganAt) {
		t.Errorf("after the failure: %+v", got)
	}
	s.set(map[string]provider.Resource{a: {"setup_stage": "0"}})
	stage("1", 4, setup.Done)
	stage("2", 5, setup.Running)
	is := s.awaitSettled(a)[a]
	wait.Until(t, "the last step runs", func() bool { return strings.HasSuffix(s.mustSSH(is, "alice", "sudo cat /root/steps"), "forever") })
	wait.Until(t, "the output of the running step is reported", func() bool { return s.stepStates(a)[4].Output == "so far\n" })
	stage("1", 5, setup.Failed)
	if got := s.stepStates(a)[4]; got.Message != setup.EndedEarly || got.Output != "so far\n" {
		t.Errorf("the ended step says %+v", got)
	}
	if out, err := s.ssh(is, "alice", "pgrep -f 'sleep [12]000'"); err == nil {
		t.Errorf("its processes still run: %s", out)
	}
	s.set(map[string]provider.Resource{a: {"restart_serial": "1"}})
	s.awaitSettled(a)
	s.set(map[string]provider.Resource{a: {"power": "off"}})
	s.awaitSettled(a)
	s.set(map[string]provider.Resource{a: {"power": "on"}})
	is = s.awaitSettled(a)[a]
	s.awaitStep(a, 2, setup.Done)
	want := "zero start one one later forever stop start"
	if got := strings.Join(strings.Fields(s.mustSSH(is, "alice", "sudo cat /root/steps")), " "); got != want {
		t.Errorf("it has done %q, want %q", got, want)
	}
	l, err := s.testbed.node(a).listenInside(t.Context(), "tcp", "127.0.0.1:8000", "")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			said <- err.Error()
			return
		}
		defer c.Close()
		line, _ := bufio.NewReader(c).ReadString('\n')
		said <- line
	}()
	s.set(map[string]provider.Resource{a: absent})
	s.awaitGone(a)
	if got := <-said; got != "bye\n" {
		t.Errorf("before the removal, the node says %q", got)
	}
}

// The disks of a setup are mounted before its other steps, keep their files as long as the node
// exists, and are gone with it. A full disk fills no other.
func TestRealDisks(t *testing.T) {
	require.Root(t)
	reapChildren()
	before, err := hoststate.Take(hoststate.Options{Only: []string{"testbed-d1", t.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "testbed-d1", 43800)
	a, b := nodeName(1), nodeName(2)
	n, blocked := s.newNode("a", "alice"), s.newNode("b", "alice")
	n["setup"] = []string{
		diskStep(64, "/data"), diskStep(32, "/data/deep/"), diskStep(16, "/home"),
		executeStep("echo kept >/data/file; echo kept >/data/deep/file; stat -c '%n %U %a' /data /data/deep /data/lost+found /home"),
	}
	blocked["setup"] = []string{diskStep(16, "/etc/hosts")}
	s.set(map[string]provider.Resource{a: n, b: blocked})
	all := s.awaitSettled(a, b)
	if got := s.awaitSteps(a); got[3].Output != "/data root 755\n/data/deep root 755\n/data/lost+found root 700\n/home root 755\n" || !strings.Contains(got[1].Output, "a disk of 32 MiB with ext4 is mounted at /data/deep") {
		t.Errorf("the steps are %+v", got)
	}
	if got := s.awaitSteps(b)[0]; got.State != setup.Failed || !strings.Contains(got.Message, "there is no disk at /etc/hosts") {
		t.Errorf("where a file is in the way: %+v", got)
	}
	const look = "cat /data/file /data/deep/file ~/own; df --output=target /data /data/deep /home"
	const want = "kept\nkept\nown\nMounted on\n/data\n/data/deep\n/home"
	s.mustSSH(all[a], "alice", "echo own >~/own; head -c 1000000000 /dev/zero | sudo tee /data/full >/dev/null; test $(stat -c %s /data/full) -lt 67108864")
	check := func(when string) {
		t.Helper()
		if got := s.mustSSH(s.awaitSettled(a)[a], "alice", look); got != want {
			t.Errorf("%s:\n%s", when, got)
		}
	}
	check("with a full disk")
	s.set(map[string]provider.Resource{a: {"restart_serial": "1"}})
	check("after a restart with a full disk")
	s.mustSSH(all[a], "alice", "sudo rm /data/full && echo more | sudo tee /data/more")
	s.up()
	check("after a restart of the testbed")
	s.set(map[string]provider.Resource{a: {"power": "off"}})
	s.awaitSettled(a)
	s.set(map[string]provider.Resource{a: {"power": "on"}})
	check("after off and on")
	kill := s.runInProcess()
	waitForSocket(t, s.options.Socket)
	s.set(map[string]provider.Resource{a: {"restart_serial": "2"}})
	kill()
	s.up()
	check("after a kill of the testbed during a restart")
	s.set(map[string]provider.Resource{a: absent, b: absent})
	s.awaitGone(a, b)
	s.stop()
	if err := Clean(t.Context(), s.options, func(string) {}); err != nil {
		t.Error(err)
	}
	reapChildren()
	hoststate.Await(t, before, 30*time.Second)
}
