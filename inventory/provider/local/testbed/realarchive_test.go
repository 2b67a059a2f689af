package testbed

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
)

// The steps that need more than the plain install and execute work in a real node, where ids are
// mapped: an archive with accounts and folders, and a script of the first account.
func TestRealArchivesAndScripts(t *testing.T) {
	s := newSite(t, "setup-r4", 43200)
	a := nodeName(1)
	n := s.newNode("a", "alice")
	archive := "data:;base64," + base64.StdEncoding.EncodeToString(tarball(t, map[string]string{"table": "x"}))
	const accounts = `"users":[{"name":"db","id":1001},{"name":"far","id":3000000000}],"groups":[{"name":"dbs","id":1001}]`
	n["setup"] = []string{
		fmt.Sprintf(`{"kind":"install","url":%q,"install_path":"/srv/db/data","archive":{%s,"folders":[{"path":"/srv/db","user":1001,"group":1001,"mode":"0750"},{"path":"/srv/db/data","user":3000000000,"group":1001,"mode":"0755"}]}}`, archive, accounts),
		`{"kind":"execute","script":"bin/run","files":[{"url":"data:,%23!/bin/sh%0Aecho%20$port%20$(id%20-un)%20$PWD;%20cat%20*/lib","path":"bin/run"},{"url":"data:,helper","path":"etc/lib"}],"environment":{"port":"80"},"as_user":true}`,
		executeStep("for u in far db; do su $u -c 'geni-get key' 2>&1; done; useradd svc; su svc -c 'geni-get key' 2>&1; su alice -c 'geni-get key' | head -1"),
		executeStep("stat -c '%U:%G %a' /srv/db /srv/db/data /srv/db/data/table; stat -c %u /srv/db/data; getent passwd db"),
	}
	s.set(map[string]provider.Resource{a: n})
	s.awaitSettled(a)
	for i, want := range []setup.Report{
		{State: setup.Done},
		{State: setup.Done, Output: "80 alice /var/lib/patchbay/scripts/2-0\nhelper"},
		{State: setup.Done, Output: strings.Repeat("geni-get: only root and the accounts of the experiment may read its key\n", 3) + "-----BEGIN RSA PRIVATE KEY-----\n"},
		{State: setup.Done, Output: "db:dbs 750\nfar:dbs 755\nroot:root 755\n1000\ndb:x:1001:1001::/home/db:/bin/sh\n"},
	} {
		got := s.awaitSteps(a)[i]
		if got.State != want.State || got.Exit != want.Exit || got.Message != want.Message || want.Output != "" && got.Output != want.Output {
			t.Errorf("step %d: %+v, want %+v", i+1, got, want)
		}
	}
}

// When the stage falls, all processes of a running step end, and it runs again when the stage grows.
func TestRealEndOfAStep(t *testing.T) {
	s := newSite(t, "setup-r5", 43300)
	s.options.Settings.ServicesWait = 200 * time.Millisecond
	s.up()
	a := nodeName(1)
	n := s.newNode("a", "alice")
	n["setup_stage"] = "0"
	n["setup"] = []string{`{"kind":"execute","shell":"sh","as_user":true,"command":"test -e ~/again && again=yes; touch ~/again; echo run; pgrep -c -f 'sleep 54321'; test -n \"$again\" && exit; sleep 54321 & sleep 54321; true"}`}
	s.set(map[string]provider.Resource{a: n})
	s.awaitSettled(a)
	wait.Until(t, "the step has counted", func() bool { return s.stepStates(a)[0].Output == "run\n1\n" })
	for _, tt := range []struct {
		stage string
		want  setup.Report
	}{
		{"-1", setup.Report{State: setup.Failed, Exit: 255, Message: setup.EndedEarly}},
		{"0", setup.Report{State: setup.Done}},
	} {
		s.set(map[string]provider.Resource{a: {"setup_stage": tt.stage}})
		var got steprunner.Step
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			if got = s.stepStates(a)[0]; got.State == tt.want.State {
				break
			}
		}
		// pgrep counts its own shell.
		if got.State != tt.want.State || got.Exit != tt.want.Exit || !strings.Contains(got.Message, tt.want.Message) || got.Output != "run\n1\n" {
			t.Errorf("at stage %s: %+v, want %+v", tt.stage, got, tt.want)
		}
	}
}
