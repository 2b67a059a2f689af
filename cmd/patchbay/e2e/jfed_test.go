package e2e

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// jfedScript runs jFed's automated test with all its assertions, by sliver URNs where
// jFed uses them.
func jfedScript(t *testing.T, v *wireClient, slice, cred string) {
	grant := v.creds(cred)
	mine := v.creds(string(v.Credential))

	// 1. call checks that every answer has code, value and output.

	// 2. GetVersion.
	a := v.call("GetVersion")
	if member(a.top, "geni_api") != 3 || member(a.value, "geni_api") != 3 {
		t.Errorf("geni_api: %v and %v", member(a.top, "geni_api"), member(a.value, "geni_api"))
	}
	versions := member(a.value, "geni_api_versions").(xmlrpc.Struct)
	if _, ok := versions.Get("3"); !ok {
		t.Error("its own version is not among those it lists")
	}
	for _, m := range versions {
		u, err := url.Parse(m.Value.(string))
		if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
			t.Errorf("version %s is at %v", m.Name, m.Value)
		}
	}
	once := func(what string, list []xmlrpc.Value, keys ...string) {
		t.Helper()
		if len(list) == 0 {
			t.Errorf("%s is empty", what)
		}
		var seen []string
		for _, x := range list {
			var key []string
			for _, k := range keys {
				text, ok := member(x, k).(string)
				if !ok || text == "" {
					t.Errorf("%s: %s is %v", what, k, member(x, k))
				}
				key = append(key, text)
			}
			if k := strings.Join(key, " "); slices.Contains(seen, k) {
				t.Errorf("%s has %s twice", what, k)
			} else {
				seen = append(seen, k)
			}
		}
	}
	for _, list := range []string{"geni_request_rspec_versions", "geni_ad_rspec_versions"} {
		all := member(a.value, list).([]xmlrpc.Value)
		once(list, all, "type", "version")
		for _, x := range all {
			_, ok1 := member(x, "schema").(string)
			_, ok2 := member(x, "namespace").(string)
			_, ok3 := member(x, "extensions").([]xmlrpc.Value)
			if !ok1 || !ok2 || !ok3 {
				t.Errorf("%s: %v", list, x)
			}
		}
	}
	once("geni_credential_types", member(a.value, "geni_credential_types").([]xmlrpc.Value), "geni_type", "geni_version")

	// 3. ListResources without credentials.
	v.want("ListResources", am.BadArgs, []xmlrpc.Value{}, rspec3("geni"))
	// 4. Status of a slice that does not exist, with the user credential.
	v.fails("the user credential", "Status", urns(strings.Replace(slice, "+slice+", "+slice+no", 1)), mine, xmlrpc.Struct{})
	// 5. A fresh slice.
	v.fails("a fresh slice", "Status", urns(slice), grant, xmlrpc.Struct{})
	for _, compressed := range []bool{true, false} {
		d := v.want("Describe", am.Success, urns(slice), grant, rspec3("geni", option("geni_compressed", compressed)))
		text := member(d, "geni_rspec").(string)
		if packed := !strings.HasPrefix(text, "<"); packed != compressed {
			t.Errorf("asked for compressed %v, packed %v", compressed, packed)
		}
		text, err := client.Unpack(text)
		if err != nil {
			t.Fatal(err)
		}
		if m := v.rspec(text, "manifest"); len(m.Nodes)+len(m.All) != 0 || len(v.slivers(d)) != 0 || member(d, "geni_urn") != slice {
			t.Errorf("the fresh slice has %d nodes and is %v", len(m.Nodes), member(d, "geni_urn"))
		}
	}

	// 10. Status and Describe return the slice and that sliver.
	allocated := v.want("Allocate", am.Success, slice, grant, oneNode, xmlrpc.Struct{})
	slivers := v.slivers(allocated)
	if len(slivers) != 1 {
		t.Fatalf("%d slivers of one node", len(slivers))
	}
	v.wantEvery(slivers, "geni_allocation_status", "geni_allocated")
	sliver := sliverNames(slivers)[0]
	one := func(value xmlrpc.Value) xmlrpc.Struct {
		t.Helper()
		list := v.slivers(value)
		if len(list) != 1 || sliverNames(list)[0] != sliver {
			t.Fatalf("it lists %q, want %s", sliverNames(list), sliver)
		}
		return list[0]
	}
	v.rspec(member(allocated, "geni_rspec"), "manifest")
	checkManifest(t, member(allocated, "geni_rspec").(string), sliver)

	// 7. Provision by sliver URN: at once provisioned.
	provisioned := v.want("Provision", am.Success, urns(sliver), grant, rspec3("geni", option("geni_users", userAccounts(v.User))))
	now := one(provisioned)
	if member(now, "geni_allocation_status") != "geni_provisioned" {
		t.Errorf("provisioned: %v", now)
	}
	if e, err := time.Parse(time.RFC3339, member(now, "geni_expires").(string)); err != nil || !e.After(time.Now()) {
		t.Errorf("provisioned until %v", member(now, "geni_expires"))
	}
	logins := func(rspec xmlrpc.Value) (n int) {
		t.Helper()
		for _, node := range v.rspec(rspec, "manifest").Nodes {
			for _, l := range node.Logins {
				if l.Authentication != "ssh-keys" || l.Host == "" || l.User == "" {
					t.Errorf("login %+v", l)
				}
				if _, err := strconv.Atoi(l.Port); err != nil {
					t.Errorf("port %q", l.Port)
				}
				n++
			}
		}
		return n
	}
	logins(member(provisioned, "geni_rspec"))

	// 8. Status until no longer pending.
	var seen []string
	state := func() string {
		t.Helper()
		value := v.want("Status", am.Success, urns(sliver), grant, xmlrpc.Struct{})
		x := one(value)
		if member(value, "geni_urn") != slice || member(x, "geni_allocation_status") != "geni_provisioned" {
			t.Fatalf("Status: %v of %v", x, member(value, "geni_urn"))
		}
		s := member(x, "geni_operational_status").(string)
		if s == "geni_failed" {
			t.Fatalf("it failed: %v", member(x, "geni_error"))
		}
		if len(seen) == 0 || seen[len(seen)-1] != s {
			seen = append(seen, s)
		}
		return s
	}
	wait.Until(t, "no longer pending", func() bool { return state() != "geni_pending_allocation" })
	// 9. geni_start by sliver URN.
	one(v.want("PerformOperationalAction", am.Success, urns(sliver), grant, "geni_start", xmlrpc.Struct{}))
	// 10. Status and Describe are of the slice and of that sliver.
	state()
	d := v.want("Describe", am.Success, urns(sliver), grant, rspec3("geni"))
	if one(d); member(d, "geni_urn") != slice {
		t.Errorf("Describe is of %v", member(d, "geni_urn"))
	}
	// 11. Status until ready.
	wait.Until(t, "ready", func() bool { return state() == "geni_ready" })
	if want := []string{"geni_pending_allocation", "geni_notready", "geni_configuring", "geni_ready"}; !slices.Equal(seen, want) {
		t.Errorf("the states on the way were %q, want %q: the wait states were not seen", seen, want)
	}
	d = v.want("Describe", am.Success, urns(slice), grant, rspec3("geni"))
	if one(d); logins(member(d, "geni_rspec")) != 1 {
		t.Error("a ready node has no login")
	}
	manifest := member(d, "geni_rspec").(string)
	checkManifest(t, manifest, sliver)
	program.WantTexts(t, manifest, fmt.Sprintf("username=%q", v.URN.Name), strings.Fields(string(v.SSHPublicKey))[1])
	// 12. Renew by five minutes: Status returns exactly the time that was sent.
	before, err := time.Parse(time.RFC3339, member(one(v.want("Status", am.Success, urns(sliver), grant, xmlrpc.Struct{})), "geni_expires").(string))
	if err != nil {
		t.Fatal(err)
	}
	later := before.Add(5 * time.Minute).Format("2006-01-02T15:04:05Z")
	one(v.want("Renew", am.Success, urns(sliver), grant, later, xmlrpc.Struct{}))
	if got := member(one(v.want("Status", am.Success, urns(sliver), grant, xmlrpc.Struct{})), "geni_expires"); got != later {
		t.Errorf("renewed to %v, want %s", got, later)
	}
	// 13. Delete by slice URN.
	x := one(v.want("Delete", am.Success, urns(slice), grant, xmlrpc.Struct{}))
	if member(x, "geni_allocation_status") != "geni_unallocated" || member(x, "geni_operational_status") == "" {
		t.Errorf("deleted: %v", x)
	}
	v.fails("deleted", "Status", urns(slice), grant, xmlrpc.Struct{})
	v.fails("deleted", "Status", urns(sliver), grant, xmlrpc.Struct{})
}
