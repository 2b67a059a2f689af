package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

const servicesRequest = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
  <node client_id="web"><services>
    <execute shell="sh" command="/local/start.sh"/>
    <install url="http://example.org/tools.tgz" install_path="/local"/>
    <install url="http://example.org/fail.tgz" install_path="/local"/>
  </services></node>
  <node client_id="db"/>
</rspec>`

// TestOutsideServices has nodes install and execute, one of which fails, at a site
// that reports it and at one that takes the node for failed.
func TestOutsideServices(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	const failure = "install 2 of 2, http://example.org/fail.tgz: the archive cannot be fetched; this failure is simulated"
	for _, tt := range []struct{ policy, web string }{{"report", "geni_ready"}, {"fail", "geni_failed"}} {
		t.Run(tt.policy, func(t *testing.T) {
			slice := f.issue(f.urn("slice", "of"+tt.policy), false, root)
			cred := signed(f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, root))
			s := newServed(t, "testbed.example.org", f, root)
			s.settings("timing: {make: 50ms, start: 50ms, stop: 20ms, restart: 20ms, users: 20ms, remove: 20ms, install: 100ms, execute: 100ms}\n")
			config := filepath.Join(s.dir, "patchbay.yaml")
			if err := os.WriteFile(config, []byte(readFile(t, config)+"\nservices_failure: "+tt.policy+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			s.start()
			c := s.as(user, false)
			if _, r, err := c.Allocate(t.Context(), slice.urn, cred, servicesRequest, client.Options{}); err != nil || r.Code != am.Success {
				t.Fatal(r.Output, err)
			}
			if _, r, _ := c.Provision(t.Context(), []string{slice.urn}, cred, client.Options{}); r.Code != am.Success {
				t.Fatal(r.Output)
			}
			is := func(web, db string) bool {
				a, _, _ := c.Status(t.Context(), []string{slice.urn}, cred, client.Options{})
				return len(a.Slivers) == 2 && a.Slivers[0].Operational == web && a.Slivers[1].Operational == db
			}
			wait.Until(t, "made", func() bool { return is("geni_notready", "geni_notready") })
			if _, r, _ := c.PerformOperationalAction(t.Context(), []string{slice.urn}, cred, "geni_start", client.Options{}); r.Code != am.Success {
				t.Fatal(r.Output)
			}
			wait.Until(t, "started", func() bool { return is(tt.web, "geni_ready") })
			a, r, _ := c.Status(t.Context(), []string{slice.urn}, cred, client.Options{})
			if a.Slivers[0].Error != failure || a.Slivers[1].Error != "" {
				t.Errorf("errors %q and %q", a.Slivers[0].Error, a.Slivers[1].Error)
			}
			var b strings.Builder
			told := readValue(r.Value)
			told.logs = true
			told.print(&b)
			has(t, b.String(), "web   1     install  http://example.org/tools.tgz  done", "http://example.org/fail.tgz   failed (1)  the archive cannot be fetched",
				"web   3     execute  /local/start.sh               done", "output of web, step 3:\n    nothing was done: this node is simulated\n")
		})
	}
}
