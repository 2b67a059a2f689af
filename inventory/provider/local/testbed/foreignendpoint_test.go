package testbed

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider/local"
)

func requestEndpoints(t *testing.T, tb *Testbed, q local.EndpointsInput) map[string]local.EndpointStatus {
	t.Helper()
	q.Provider = "rack"
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tb.handleEndpoints(b)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]local.EndpointStatus{}
	for _, d := range out.Endpoints {
		all[d.Name] = d
	}
	return all
}

func TestForeignEndpoints(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	defer func() { stop() }()
	alice, bob := userItems("alice"), userItems("bob")
	id := foreignEndpointID("rack", "n1")

	// At first only the users are known.
	d := requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Users: alice}}})["n1"]
	if d.Error != "" || d.Login != nil || !slices.Equal(d.Users, alice) || len(h.opens) != 0 {
		t.Errorf("users alone: %+v", d)
	}
	d = requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Address: "10.0.0.1:22", Hostname: "pc1.lab"}}})["n1"]
	want := []string{"lab.example.org:30001", "pc1-" + strings.TrimPrefix(id, "door-")[:8] + ":22"}
	if !slices.Equal(d.Login, want) || d.Proxy != "gateway@lab.example.org:30000" || !slices.Equal(d.Users, alice) {
		t.Errorf("with an address: %+v", d)
	}
	if o := h.opens[id]; o.Address != "10.0.0.1:22" || len(o.Accounts) != 1 || o.Accounts[0].Login != "alice" || o.HostKey != nil {
		t.Errorf("the gateway has %+v", o)
	}
	requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Users: bob}}})
	if o := h.opens[id]; o.Address != "10.0.0.1:22" || o.Accounts[0].Login != "bob" {
		t.Errorf("other users: %+v", o)
	}

	for address, why := range map[string]string{
		"127.0.0.1:22": "may not forward to 127.0.0.1", "[::1]:22": "may not forward to ::1", "[::ffff:127.0.0.1]:22": "may not forward",
		"169.254.169.254:80": "may not forward", "0.0.0.0:22": "may not forward", "[fe80::1%lo]:22": "may not forward", "10.0.0.1": "not an IP address with a port",
		"10.0.0.1:0": "not an IP address with a port", "localhost:22": "not an IP address with a port", "../x:22": "not an IP address with a port",
	} {
		d := requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "bad", Address: address}}})["bad"]
		if !strings.Contains(d.Error, why) {
			t.Errorf("%s: %q", address, d.Error)
		}
	}
	if d := requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "a\nb", Address: "10.0.0.1:22"}}})["a\nb"]; d.Error == "" {
		t.Error("a name of two lines")
	}

	stop()
	tb, stop = h.run(-1)
	for range 5000 { // they are opened in the background
		if d = requestEndpoints(t, tb, local.EndpointsInput{Names: []string{"n1", "none"}})["n1"]; d.Login != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(d.Login, want) || h.opens[id].Address != "10.0.0.1:22" {
		t.Errorf("after a restart: %+v, %+v", d, h.opens)
	}
	if l := tb.list(); len(l.Endpoints) != 1 || l.Endpoints[0].Address != "10.0.0.1:22" {
		t.Errorf("list: %+v", l)
	}
	requestEndpoints(t, tb, local.EndpointsInput{Remove: []string{"n1", "n1", "none"}})
	h.checkNothingLeft(t, tb)
}

func TestFailedEndpointTakesOnePort(t *testing.T) {
	for _, operation := range []string{"write", "set endpoint"} {
		h := newFakeHost(t)
		tb, stop := h.run(-1)
		defer stop()
		h.failOperation(operation, errors.New("broken"))
		put := local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Address: "10.0.0.1:22"}}}
		for range 5 {
			if d := requestEndpoints(t, tb, put)["n1"]; d.Error == "" {
				t.Errorf("%s: %+v", operation, d)
			}
		}
		if got := allocationHolders(t, filepath.Join(h.dir, "claims/ports")); len(got) > 2 {
			t.Errorf("%s: ports of %v", operation, got)
		}
		if len(h.opens) > 0 {
			t.Errorf("%s: the gateway has %v", operation, h.opens)
		}
		h.failOperation(operation, nil)
		d := requestEndpoints(t, tb, put)["n1"]
		h.mu.Lock()
		written := h.done["write"]
		h.mu.Unlock()
		if d.Error != "" || len(d.Login) == 0 {
			t.Errorf("%s works again: %+v", operation, d)
		}
		stop()
		tb, stop2 := h.run(-1)
		for range 5000 {
			if requestEndpoints(t, tb, local.EndpointsInput{Names: []string{"n1"}})["n1"].Login != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		h.mu.Lock()
		if h.done["write"] != written {
			t.Errorf("%s: what has not changed was written %d times", operation, h.done["write"]-written)
		}
		h.mu.Unlock()
		requestEndpoints(t, tb, local.EndpointsInput{Remove: []string{"n1"}})
		h.checkNothingLeft(t, tb)
		stop2()
	}
}

func TestForeignEndpointsOfTwoProviders(t *testing.T) {
	if foreignEndpointID("a", "bc") == foreignEndpointID("ab", "c") {
		t.Error("two nodes share an endpoint")
	}
}

func TestDamagedEndpointFiles(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	requestEndpoints(t, tb, local.EndpointsInput{Set: []local.EndpointRequest{{Name: "n1", Address: "10.0.0.1:22"}}})
	stop()
	dir := filepath.Join(h.dir, "state", "endpoints")
	if err := os.WriteFile(filepath.Join(dir, "x.json.new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.settings.ForwardTo = nil
	tb, stop = h.run(-1)
	if d := requestEndpoints(t, tb, local.EndpointsInput{Names: []string{"n1"}}); len(d) != 1 {
		t.Errorf("%v", d)
	}
	stop()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("half a record is left: %v", entries)
	}
	if err := os.WriteFile(filepath.Join(dir, "y.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop = h.run(-1)
	stop()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a spoilt record is left: %v", entries)
	}
}
