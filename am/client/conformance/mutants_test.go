package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client/conformance"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// probeMutants has, for each mutant of the aggregate, the only check that must call it broken. If it
// has a verdict, the specification leaves that open, and nothing is broken.
var probeMutants = []struct {
	check, name string
	verdict     conformance.Verdict
	mutate      func(*mutation)
	http        func(body []byte, w http.ResponseWriter) (done bool)
}{
	{check: "transport.answers", name: "redirected", http: func(_ []byte, w http.ResponseWriter) bool {
		w.Header().Set("Location", "https://example.org/")
		w.WriteHeader(http.StatusMovedPermanently)
		return true
	}},
	{check: "transport.content-type", name: "HTML", http: func(_ []byte, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/html")
		return false
	}},
	{check: "transport.bad-xml", name: "status 500", http: func(body []byte, w http.ResponseWriter) bool {
		if _, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{}); err == nil {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}},
	{check: "transport.unknown-method", name: "succeeds", mutate: on(3, "NoSuchMethodOfAnyVersion", func(m *mutation) { m.succeed("") })},
	{check: "transport.arguments", name: "seven are accepted", mutate: on(3, "ListResources", func(m *mutation) {
		if len(m.call.Params) == 7 {
			m.succeed("")
		}
	})},
	{check: "version3.answer", name: "wrong geni_api", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_api", 2) })},
	{check: "version3.answer", name: "geni_api as text", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_api", "3") })},
	{check: "version3.urls", name: "own version missing", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_api_versions", xmlrpc.Struct{{Name: "2", Value: "https://am.example.org/am/2.0"}})
	})},
	{check: "version3.urls", name: "no URL", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_api_versions", xmlrpc.Struct{{Name: "2", Value: "https://am.example.org/am/2.0"}, {Name: "3", Value: "here"}})
	})},
	{check: "version3.rspecs", name: "empty", mutate: on(3, "GetVersion", func(m *mutation) { m.member("geni_ad_rspec_versions", []xmlrpc.Value{}) })},
	{check: "version3.credentials", name: "version as number", mutate: on(3, "GetVersion", func(m *mutation) {
		m.member("geni_credential_types", []xmlrpc.Value{xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_version", Value: 3}}})
	})},
	{check: "version2.answer", name: "wrong geni_api", mutate: on(2, "GetVersion", func(m *mutation) { m.member("geni_api", 3) })},
	{check: "version2.rspecs", name: "missing", mutate: on(2, "GetVersion", func(m *mutation) { m.member("geni_request_rspec_versions", nil) })},
	{check: "advertisement3.xml", name: "of another type", mutate: on(3, "ListResources", func(m *mutation) { m.replace(`type="advertisement"`, `type="request"`) })},
	{check: "advertisement3.xml", name: "cut off", mutate: on(3, "ListResources", func(m *mutation) { m.replace("</rspec>", "") })},
	{check: "advertisement3.nodes", name: "a component twice", mutate: on(3, "ListResources", func(m *mutation) {
		m.rspec(func(s string) string { return strings.ReplaceAll(s, "+node+pc2\"", "+node+pc1\"") })
	})},
	{check: "advertisement3.compressed", name: "another text", mutate: on(3, "ListResources", func(m *mutation) {
		if m.option("geni_compressed") {
			m.replace("pc3", "pc4")
		}
	})},
	{check: "advertisement3.available", name: "a node in use", mutate: on(3, "ListResources", func(m *mutation) {
		if m.option("geni_available") {
			m.replace(`now="true"`, `now="false"`)
		}
	})},
	{check: "advertisement2.xml", name: "of another type", mutate: on(2, "ListResources", func(m *mutation) { m.replace(`type="advertisement"`, `type="x"`) })},
	{check: "credentials3.none", verdict: conformance.NotTried, name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.credential() == "" && len(m.call.Params) == 2 })},
	{check: "credentials3.junk", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.credential() == "<no-credential/>" })},
	{check: "credentials3.altered", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return strings.Contains(m.credential(), "<expires>30") })},
	{check: "credentials3.altered", name: "wrong code", mutate: on(3, "ListResources", func(m *mutation) {
		if strings.Contains(m.credential(), "<expires>30") {
			m.setCode(5)
		}
	})},
	{check: "credentials3.stranger", name: "accepted", mutate: accepted(3, "ListResources", func(m *mutation) bool { return m.stranger })},
	{check: "credentials3.user-for-slice", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return !strings.Contains(fmt.Sprint(m.call.Params[1]), "+slice+") })},
	{check: "credentials3.other-slice", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "no-such-slice") })},
	{check: "credentials3.expired", name: "accepted", mutate: accepted(3, "Status", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "+slice+gone") })},
	{check: "credentials2.none", verdict: conformance.NotTried, name: "accepted", mutate: accepted(2, "ListResources", func(m *mutation) bool { return m.credential() == "" })},
	{check: "credentials2.expired", name: "accepted", mutate: accepted(2, "SliverStatus", func(m *mutation) bool { return strings.Contains(fmt.Sprint(m.call.Params[0]), "+slice+gone") })},
	{check: "life3.empty", name: "succeeds", mutate: on(3, "Status", func(m *mutation) {
		if m.code() == 12 && !m.run.deleted && !strings.Contains(fmt.Sprint(m.call.Params[0]), "no-such-slice") {
			m.succeed(xmlrpc.Struct{{Name: "geni_slivers", Value: []xmlrpc.Value{}}})
		}
	})},
	{check: "life3.allocate", name: "wrong state", mutate: on(3, "Allocate", func(m *mutation) { m.sliver("geni_allocation_status", "geni_provisioned") })},
	{check: "life3.allocate", name: "lost sliver", mutate: on(3, "Allocate", func(m *mutation) { m.member("geni_slivers", []xmlrpc.Value{}) })},
	{check: "life3.allocate", name: "wrong code", mutate: on(3, "Allocate", func(m *mutation) { m.setCode(6) })},
	{check: "life3.lease", name: "longer than the credential", mutate: on(3, "Status", func(m *mutation) { m.sliver("geni_expires", "2099-01-01T00:00:00Z") })},
	{check: "life3.lease", name: "in the past", mutate: on(3, "Status", func(m *mutation) { m.sliver("geni_expires", "2020-01-01T00:00:00Z") })},
	{check: "life3.status", name: "another sliver", mutate: on(3, "Status", func(m *mutation) {
		if m.state() == "geni_allocated" {
			m.sliver("geni_sliver_urn", "urn:publicid:IDN+testbed.example.org+sliver+other")
		}
	})},
	{check: "life3.provision", name: "another sliver", mutate: on(3, "Provision", func(m *mutation) { m.sliver("geni_sliver_urn", "urn:publicid:IDN+testbed.example.org+sliver+other") })},
	{check: "life3.configured", name: "failed", mutate: on(3, "Status", func(m *mutation) {
		if m.state() == "geni_provisioned" && !m.run.started {
			m.sliver("geni_operational_status", "geni_failed")
		}
	})},
	{check: "life3.started", name: "failed", mutate: on(3, "Status", func(m *mutation) {
		if m.run.started && !m.run.deleted {
			m.sliver("geni_operational_status", "geni_failed")
		}
	})},
	{check: "life3.describe", name: "another slice", mutate: on(3, "Describe", func(m *mutation) { m.member("geni_urn", "urn:publicid:IDN+testbed.example.org+slice+x") })},
	{check: "life3.describe", name: "no manifest", mutate: on(3, "Describe", func(m *mutation) { m.replace(`type="manifest"`, `type="request"`) })},
	{check: "life3.renew", name: "another time", mutate: on(3, "Renew", func(m *mutation) { m.sliver("geni_expires", "2026-01-01T00:00:00Z") })},
	{check: "life3.renew-too-long", name: "accepted", mutate: on(3, "Renew", func(m *mutation) {
		if m.code() != 0 {
			m.succeed([]xmlrpc.Value{xmlrpc.Struct{
				{Name: "geni_sliver_urn", Value: "urn:publicid:IDN+testbed.example.org+sliver+1"}, {Name: "geni_allocation_status", Value: "geni_provisioned"},
				{Name: "geni_expires", Value: m.call.Params[2]},
			}})
		}
	})},
	{check: "life3.unknown-action", name: "accepted", mutate: on(3, "PerformOperationalAction", func(m *mutation) {
		if m.code() != 0 {
			m.succeed([]xmlrpc.Value{})
		}
	})},
	{check: "life3.delete", name: "wrong state", mutate: on(3, "Delete", func(m *mutation) { m.sliver("geni_allocation_status", "geni_provisioned") })},
	{check: "life3.deleted", name: "still there", mutate: on(3, "Status", func(m *mutation) {
		if m.run.deleted {
			m.succeed(xmlrpc.Struct{{Name: "geni_slivers", Value: []xmlrpc.Value{}}})
		}
	})},
	{check: "life3.delete-again", name: "wrong code", mutate: on(3, "Delete", func(m *mutation) {
		if m.code() == 12 || len(fmt.Sprint(m.value())) < 4 {
			m.setCode(5)
		}
	})},
	{check: "documents3.extension", name: "a reference resolved", mutate: on(3, "Describe", func(m *mutation) { m.replace("&#xE9;", "é") })},
	{check: "documents3.foreign", name: "a comment lost", mutate: on(3, "Describe", func(m *mutation) { m.replace("<!-- not ours -->", "") })},
	{check: "documents3.client-ids", name: "renamed", mutate: on(3, "Describe", func(m *mutation) { m.replace(`client_id="probe"`, `client_id="node-0"`) })},
	{check: "documents3.sliver-ids", name: "lost", mutate: on(3, "Describe", func(m *mutation) { m.replace("sliver_id=", "sliver_name=") })},
	{check: "login3.offered", verdict: conformance.NotOffered, name: "lost", mutate: on(3, "Describe", func(m *mutation) {
		m.rspec(func(s string) string { return strings.ReplaceAll(s, "ssh-keys", "password") })
	})},
	{check: "login3.works", name: "refuses the key", mutate: on(3, "Provision", func(m *mutation) { m.run.key = "none" })},
	{check: "login3.refuses-other-keys", name: "accepts any key", mutate: on(3, "Provision", func(m *mutation) { m.run.key = "any" })},
	{check: "life2.create", name: "no manifest", mutate: on(2, "CreateSliver", func(m *mutation) { m.setValue(true) })},
	{check: "life2.status", name: "failed", mutate: on(2, "SliverStatus", func(m *mutation) { m.member("geni_status", "failed") })},
	{check: "life2.status", name: "another slice", mutate: on(2, "SliverStatus", func(m *mutation) { m.member("geni_urn", "urn:publicid:IDN+x+slice+y") })},
	{check: "life2.manifest", name: "of another type", mutate: on(2, "ListResources", func(m *mutation) { m.replace(`type="manifest"`, `type="request"`) })},
	{check: "life2.renew", name: "false", mutate: on(2, "RenewSliver", func(m *mutation) { m.setValue(false) })},
	{check: "life2.delete", name: "a text", mutate: on(2, "DeleteSliver", func(m *mutation) { m.setValue("true") })},
	{check: "life2.deleted", name: "still there", mutate: on(2, "SliverStatus", func(m *mutation) {
		if m.code() == 12 {
			m.succeed(xmlrpc.Struct{})
		}
	})},
	{check: "types3.envelope", name: "no value", mutate: on(3, "Renew", func(m *mutation) { m.setValue(nil) })},
	{check: "types3.envelope", name: "code as number", mutate: on(3, "Describe", func(m *mutation) { m.answer = set(m.answer, "code", 0) })},
	{check: "types3.envelope", name: "no output", mutate: on(3, "Status", func(m *mutation) {
		if m.run.deleted {
			m.answer = set(m.answer, "output", nil)
		}
	})},
	{check: "types3.slivers", name: "no expiry", mutate: on(3, "Provision", func(m *mutation) { m.sliver("geni_expires", nil) })},
	{check: "types3.slivers", name: "state as number", mutate: on(3, "Describe", func(m *mutation) { m.sliver("geni_allocation_status", 3) })},
	{check: "types2.envelope", name: "code as text", mutate: on(2, "RenewSliver", func(m *mutation) { m.answer = set(m.answer, "code", xmlrpc.Struct{{Name: "geni_code", Value: "0"}}) })},
}

// TestProbe runs the probe on one aggregate, behind different proxies.
func TestProbe(t *testing.T) {
	lab := newProbeLab(t, "")
	t.Run("stopped", func(t *testing.T) { stoppedProbeCleansUp(t, lab) }) // alone: it counts the slivers
	for name, test := range map[string]func(*testing.T, *probeLab){
		"mutants": probeNamesEachMutant, "one version": probeOfOneVersion, "version of the URL": probeAsksForTheVersion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, lab)
		})
	}
}

// probeNamesEachMutant runs the probe on a correct aggregate, which keeps everything, and on
// mutants of it. For each, exactly one check must be broken.
func probeNamesEachMutant(t *testing.T, lab *probeLab) {
	gone, expired := lab.slice(t, "gone", "2s")
	until := time.Now().Add(3 * time.Second)
	run := func(t *testing.T, name string, mutate func(*mutation), raw func([]byte, http.ResponseWriter) bool) *conformance.Report {
		t.Helper()
		proxy := newMutatingProxy(t, lab.url, lab.folder, mutate, raw)
		c := lab.config(t, name)
		c.Expired = func(context.Context) ([]byte, string, error) {
			wait.Until(t, "the slice has expired", func() bool { return time.Now().After(until) })
			return expired, gone, nil
		}
		c.URL, c.Other = proxy+"/am/3.0", proxy+"/am/2.0"
		return runProbe(t, t.Context(), c)
	}
	t.Run("unchanged", func(t *testing.T) {
		r := run(t, "unchanged", nil, nil)
		if list := broken(r); list != nil || r.Count(conformance.Kept) < 60 {
			t.Errorf("%d kept; broken: %q", r.Count(conformance.Kept), list)
		}
	})
	for i, m := range probeMutants {
		if !require.Daily(i, 14) { // each row is a whole probe
			continue
		}
		t.Run(m.check+" "+m.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, fmt.Sprint("m", i), m.mutate, m.http)
			list := broken(r)
			if m.verdict != "" {
				at := slices.IndexFunc(r.Results, func(x conformance.Result) bool { return x.Name == m.check })
				if len(list) > 0 || r.Results[at].Verdict != m.verdict {
					t.Errorf("%v; broken: %q", r.Results[at], list)
				}
				return
			}
			if len(list) != 1 || !strings.HasPrefix(list[0], m.check+": ") {
				t.Errorf("broken: %q", list)
			}
		})
	}
}

// probeOfOneVersion runs the probe on aggregates with one version of the API.
func probeOfOneVersion(t *testing.T, lab *probeLab) {
	for _, x := range []struct{ has, lacks string }{{"3", "2"}, {"2", "3"}} {
		t.Run("version "+x.has, func(t *testing.T) {
			proxy := newMutatingProxy(t, lab.url, lab.folder, func(m *mutation) {
				if m.call.Method == "GetVersion" {
					v, _ := m.value().(xmlrpc.Struct)
					urls, _ := v.Get("geni_api_versions")
					s, _ := urls.(xmlrpc.Struct)
					m.member("geni_api_versions", set(s, x.lacks, nil))
				}
			}, nil)
			c := lab.config(t, "only"+x.has)
			c.URL = proxy + "/am/" + x.has + ".0"
			r := runProbe(t, t.Context(), c)
			if list := broken(r); list != nil || r.Count(conformance.NotOffered) < 10 {
				t.Errorf("%d not offered; broken: %q", r.Count(conformance.NotOffered), list)
			}
			for _, y := range r.Results {
				if y.Name == "life"+x.has+".delete" && y.Verdict != conformance.Kept {
					t.Errorf("%s: %s %s", y.Name, y.Verdict, y.Text)
				}
			}
		})
	}
}

// probeAsksForTheVersion runs the probe on an aggregate of version 2 whose URL does not name it.
func probeAsksForTheVersion(t *testing.T, lab *probeLab) {
	proxy := newMutatingProxy(t, lab.url, lab.folder, func(m *mutation) {
		if m.call.Method == "GetVersion" {
			m.member("geni_api", 2)
			m.member("geni_api_versions", xmlrpc.Struct{{Name: "2", Value: "https://am.example.org/RPC2"}})
		}
	}, nil)
	c := lab.config(t, "asked")
	c.URL, c.Groups = proxy+"/RPC2", []string{"version"}
	r := runProbe(t, t.Context(), c)
	if list := broken(r); list != nil || r.Results[1].Name != "version2.answer" || r.Results[1].Verdict != conformance.Kept {
		t.Errorf("%v; broken: %q", r.Results, list)
	}
	for _, x := range r.Results {
		if strings.HasPrefix(x.Name, "version3.") && x.Verdict != conformance.NotOffered {
			t.Errorf("%s: %s: %s", x.Name, x.Verdict, x.Text)
		}
	}
	if c.Version = 3; len(broken(runProbe(t, t.Context(), c))) == 0 {
		t.Error("a named version is not used")
	}
}

// stoppedProbeCleansUp ends the context when nodes exist.
func stoppedProbeCleansUp(t *testing.T, lab *probeLab) {
	c := lab.config(t, "stopped")
	ctx, stop := context.WithCancel(t.Context())
	c.Progress = func(name string, _, _ int) {
		if name == "life3.started" {
			stop()
		}
	}
	r := runProbe(t, ctx, c)
	for _, x := range r.Results {
		if x.Name == "life3.provision" && x.Verdict != conformance.Kept || x.Name == "life3.started" && x.Verdict != conformance.NotTried {
			t.Errorf("%s: %s %s", x.Name, x.Verdict, x.Text)
		}
	}
	wait.Until(t, "no slivers are left", func() bool {
		return !lab.hasSlivers(t)
	})
}
