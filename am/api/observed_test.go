package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
	"patchbay/rspec/step"
)

const withServices = `<node client_id="a"><sliver_type name="raw-pc"/><interface client_id="a:0"/><interface client_id="a:1"/><services>` +
	`<execute shell="/bin/bash" command="echo b&#10;true"/><install url="http://example.org/ä.tgz" install_path="/local"/><install url="ftp://x/y" install_path="/local"/>` +
	`</services></node><node client_id="b"><sliver_type name="raw-pc"/><interface client_id="b:0"/></node>` +
	`<link client_id="lan"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/><property source_id="a:0" dest_id="b:0" capacity="0.5" latency="12.5" packet_loss="1.5"/></link>`

// observe changes the sliver with a client_id, as observations of its provider do.
func (s *site) observe(clientID string, see func(*am.Sliver)) {
	s.t.Helper()
	err := s.store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
		v.Slivers(func(x am.Sliver) bool {
			if x.ClientID == clientID {
				see(&x)
				cs.PutSliver(x)
			}
			return true
		})
		return cs, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestStatusReportsServicesAndEmulators(t *testing.T) {
	s := setting{}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	a := alice.call("Allocate", slice, creds(cred), request(withServices), opts()).want(t, "Allocate", am.Success)
	if !strings.Contains(a.output, `an install with the url "ftp://x/y"; write an http, https or data URL, or catalogue:NAME for a file of the site's catalogue; this step will be ignored`) {
		t.Errorf("output %q", a.output)
	}
	// The record has the attributes that the provider will get.
	s.observe("a", func(x *am.Sliver) {
		want := []step.Step{{Kind: step.Install, URL: "http://example.org/ä.tgz", InstallPath: "/local"}, {Kind: step.Execute, Shell: "bash", Command: "echo b\ntrue"}}
		if diff := cmp.Diff(want, x.Setup); diff != "" {
			t.Errorf("setup (-want +got):\n%s", diff)
		}
		quality := []am.Property{{Capacity: 1, Latency: 12500 * time.Microsecond, Loss: 1.5}}
		if diff := cmp.Diff(quality, x.Interfaces[0].Properties); diff != "" {
			t.Errorf("properties (-want +got):\n%s", diff)
		}
	})
	alice.call("Provision", strs(slice), creds(cred), opts()).want(t, "Provision", am.Success)
	s.settle()
	s.observe("a", func(x *am.Sliver) {
		x.Observed.Services = []am.StepReport{{State: am.StepFailed, Exit: 4, Message: "no “route”", Output: "<ä>\n\t&\u2028"}, {State: am.StepRunning}}
		x.Observed.MACs, x.Observed.Emulators = map[string]string{"a:0": "02:00:00:00:00:01"}, map[string]string{"a:0": "tbf+vswitch"}
		x.Error = x.StepFailure()
	})
	services := []xmlrpc.Value{
		xmlrpc.Struct{{Name: "step", Value: 1}, {Name: "kind", Value: "install"}, {Name: "stage", Value: 0}, {Name: "operation", Value: ""}, {Name: "what", Value: `http://example.org/\u00e4.tgz`}, {Name: "state", Value: "failed"}, {Name: "began", Value: ""}, {Name: "ended", Value: ""}, {Name: "exit", Value: 4},
			{Name: "message", Value: `no \u201croute\u201d`}, {Name: "output", Value: "<\\u00e4>\n\t&\\u2028"}},
		xmlrpc.Struct{{Name: "step", Value: 2}, {Name: "kind", Value: "execute"}, {Name: "stage", Value: 0}, {Name: "operation", Value: ""}, {Name: "what", Value: `echo b...`}, {Name: "state", Value: "running"}, {Name: "began", Value: ""}, {Name: "ended", Value: ""}, {Name: "exit", Value: 0},
			{Name: "message", Value: ""}, {Name: "output", Value: ""}},
	}
	interfaces := []xmlrpc.Value{
		xmlrpc.Struct{{Name: "client_id", Value: "a:0"}, {Name: "link", Value: "lan"}, {Name: "mac", Value: "02:00:00:00:00:01"}, {Name: "emulator", Value: "tbf+vswitch"}},
		xmlrpc.Struct{{Name: "client_id", Value: "a:1"}, {Name: "link", Value: ""}, {Name: "mac", Value: ""}, {Name: "emulator", Value: ""}},
	}
	const failure = `install 1 of 1, http://example.org/\u00e4.tgz: no \u201croute\u201d`
	check := func(what string, sliver xmlrpc.Value) {
		t.Helper()
		if diff := cmp.Diff(xmlrpc.Value(services), get(sliver, "patchbay_services")); diff != "" {
			t.Errorf("%s: services (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(xmlrpc.Value(interfaces), get(sliver, "patchbay_interfaces")); diff != "" {
			t.Errorf("%s: interfaces (-want +got):\n%s", what, diff)
		}
		if got := get(sliver, "geni_error"); got != failure {
			t.Errorf("%s: geni_error %q", what, got)
		}
	}
	for _, method := range []string{"Status", "Describe"} {
		sl := alice.call(method, strs(slice), creds(cred), opts()).want(t, method, am.Success).slivers(t)
		check(method, sl[0])
		if got := get(sl[0], "geni_resource_status"); got != "of 2 services 0 done, 1 failed, 1 running" {
			t.Errorf("%s: geni_resource_status %q", method, got)
		}
		if get(sl[1], "patchbay_services") != nil {
			t.Errorf("%s: a node without services reports some", method)
		}
	}
	v2 := alice.call2("SliverStatus", slice, strs(cred), opts()).want(t, "SliverStatus", am.Success)
	check("SliverStatus", get(v2.value, "geni_resources").([]xmlrpc.Value)[0])
	// Methods that change something report less.
	sl := alice.call("Renew", strs(slice), creds(cred), s.clock().Add(time.Hour).Format(time.RFC3339), opts()).want(t, "Renew", am.Success).slivers(t)
	if get(sl[0], "patchbay_services") != nil || get(sl[0], "patchbay_interfaces") != nil {
		t.Errorf("Renew reports %v", sl[0])
	}
}

func TestOutputOfServicesIsBounded(t *testing.T) {
	s := setting{}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(withServices), opts()).want(t, "Allocate", am.Success)
	s.observe("a", func(x *am.Sliver) {
		x.Setup = slices.Repeat(x.Setup[:1], 3000)
		x.Observed.Services = slices.Repeat([]am.StepReport{{State: am.StepDone, Output: strings.Repeat("x", 2<<10)}}, 3000)
	})
	a := alice.call("Status", strs(slice), creds(cred), opts()).want(t, "Status", am.Success)
	told := 0
	for _, v := range get(a.slivers(t)[0], "patchbay_services").([]xmlrpc.Value) {
		told += len(get(v, "output").(string))
	}
	if told != maxDetails {
		t.Errorf("%d bytes of output are reported, want %d", told, maxDetails)
	}
}

func TestReportedInterfacesAreBounded(t *testing.T) {
	s := setting{}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(withServices), opts()).want(t, "Allocate", am.Success)
	long := strings.Repeat("x", 256)
	s.observe("a", func(x *am.Sliver) { x.Interfaces = slices.Repeat([]am.Interface{{ClientID: long, Link: long}}, 5000) })
	s.observe("b", func(x *am.Sliver) { x.Interfaces = slices.Repeat([]am.Interface{{ClientID: long, Link: long}}, 1000) })
	told := func(urn any) (n int) {
		t.Helper()
		for _, sliver := range alice.call("Status", strs(urn.(string)), creds(cred), opts()).want(t, "Status", am.Success).slivers(t) {
			if list, ok := get(sliver, "patchbay_interfaces").([]xmlrpc.Value); ok {
				n += len(list)
			}
		}
		return n
	}
	if got := told(slice); got != 5000 {
		t.Errorf("for both nodes, %d interfaces are reported, want those of the first", got)
	}
	slivers := alice.call("Status", strs(slice), creds(cred), opts()).slivers(t)
	if got := told(get(slivers[1], "geni_sliver_urn")); got != 1000 {
		t.Errorf("for the second node, %d interfaces are reported", got)
	}
}

func TestTooMuchToInstallAndExecute(t *testing.T) {
	alice := setting{inventory: "provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: false, capacity: {slots: 1000}}]"}.site(t).user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	of := func(nodes int) string {
		var b strings.Builder
		for i := range nodes {
			fmt.Fprintf(&b, `<node client_id="n%d"><services><execute shell="sh" command="%s"/></services></node>`, i, strings.Repeat("x", 64<<10))
		}
		return request(b.String())
	}
	alice.call("Allocate", slice, creds(cred), of(63), opts()).want(t, "as much as there may be", am.Success)
	slice, cred = alice.slice("s2", time.Hour)
	a := alice.call("Allocate", slice, creds(cred), of(64), opts()).want(t, "more", am.TooBig)
	if !strings.Contains(a.output, "the limit is 4194304") {
		t.Error(a.output)
	}
}

// TestInstallsWithoutOutsideAccessAreReported requests installs at a site whose nodes have no access to the
// outside.
func TestInstallsWithoutOutsideAccessAreReported(t *testing.T) {
	const doc = `<node client_id="a"><services><install url="DATA:,x" install_path="/"/><install url="https://example.org/x" install_path="/"/></services></node>` +
		`<node client_id="b"><services><install url="data:,x" install_path="/"/><install url="https://example.org/x" install_path="/"/><execute shell="sh" command="apt list; echo install"/>` +
		`<execute shell="sh" command="true; sudo apt-get -y install vlc"/></services></node>` +
		`<node client_id="c"><services xmlns:t="http://docs.oasis-open.org/tosca/ns/2011/12" xmlns:b="http://docs.oasis-open.org/tosca/ns/2011/12/ToscaBaseTypes"><execute shell="sh" command="">` +
		`<b:ScriptArtifactProperties><b:ScriptLanguage>sh</b:ScriptLanguage><b:PrimaryScript>main.sh</b:PrimaryScript></b:ScriptArtifactProperties>` +
		`<t:ArtifactReferences><t:ArtifactReference reference="https://example.org/main.sh"/><t:ArtifactReference reference="https://example.org/helper.sh"/></t:ArtifactReferences></execute></services></node>`
	for outbound, want := range map[string]bool{"no": true, "yes": false, "unknown": false} {
		alice := setting{inventory: "outbound: " + outbound + "\nprovider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: false, capacity: {slots: 9}}]"}.site(t).user("alice")
		slice, cred := alice.slice("s1", time.Hour)
		a := alice.call("Allocate", slice, creds(cred), request(doc), opts()).want(t, outbound, am.Success)
		const text = `nodes "a", "b": its install 2 of 2, "https://example.org/x", cannot be fetched: nodes here do not reach the Internet`
		const runs = `node "b": its execute 2 of 2 runs apt-get, which needs the Internet`
		const script = `node "c": the file "https://example.org/main.sh" of its execute 1 of 1 cannot be fetched: nodes here do not reach the Internet`
		if strings.Contains(a.output, script) != want || strings.Contains(a.output, "helper.sh") {
			t.Errorf("outbound: %s: output %q", outbound, a.output)
		}
		if strings.Contains(a.output, runs) != want || strings.Contains(a.output, "execute 1 of 2") {
			t.Errorf("outbound: %s: output %q", outbound, a.output)
		}
		if strings.Contains(a.output, text) != want || strings.Contains(strings.ToLower(a.output), `"data`) {
			t.Errorf("outbound: %s: output %q", outbound, a.output)
		}
	}
}

// TestOldRecordsAreRead reads a record of a version before services and properties existed.
func TestOldRecordsAreRead(t *testing.T) {
	const old = `{"URN":"urn:publicid:IDN+example.org+sliver+1","Slice":"urn:publicid:IDN+example.org+slice+s","ClientID":"a","Ordinal":0,"Hostname":"a","Document":"d","Component":"urn:publicid:IDN+example.org+node+pc1","SliverType":"vm","Image":"","Exclusive":true,"Amount":{"Slots":1},` +
		`"Interfaces":[{"ClientID":"a:0","Link":"lan","VLAN":101,"SharedVLAN":"exchange"}],"Status":{"Allocation":"geni_provisioned","Operational":"geni_ready"},"Created":"2026-01-02T03:04:05Z","Creator":"urn:publicid:IDN+example.org+user+u","Expires":"2026-01-03T03:04:05Z","Generation":2,"Desired":{"Present":true,"On":true},"Observed":{"State":"ready","MACs":{"a:0":"02:00:00:00:00:01"}}}`
	var x am.Sliver
	if err := json.Unmarshal([]byte(old), &x); err != nil {
		t.Fatal(err)
	}
	if x.Interfaces[0].Properties != nil || x.Setup != nil || x.Observed.Services != nil || x.StepFailure() != "" || x.StepProgress() != "" {
		t.Errorf("%+v", x)
	}
	// Empty fields are not written.
	b, err := json.Marshal(x)
	if err != nil || len(b) > len(old) {
		t.Errorf("%v: it takes %d bytes, and took %d: %s", err, len(b), len(old), b)
	}
}
