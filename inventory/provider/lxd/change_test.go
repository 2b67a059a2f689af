package lxd

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
)

// item is an interface of n1 on a link; more is further JSON.
func item(client, link, more string) string {
	return fmt.Sprintf(`{"client_id":%q,"link":%q,"slice":"s"%s}`, client, link, more)
}

func withInterfaces(serial string, items ...string) object {
	o := maps.Clone(present)
	if o["interfaces"] = items; serial != "" {
		o["change_serial"] = serial
	}
	return o
}

// setOther is as set, for another node.
func setOther(t *testing.T, dir string, noop bool, id string, should object) string {
	t.Helper()
	defer claim(t, dir)()
	o := call(t, dir, "set", object{"updates": []object{{"name": id, "should": should}}, "ral": object{"noop": noop}})
	if list, _ := o["changes"].([]any); len(list) > 0 {
		return fmt.Sprint(list)
	}
	return fmt.Sprint(o["error"])[len("<nil>"):]
}

// TestLinksChangeInPlace checks the devices after changes, also when an answer is lost or refused.
func TestLinksChangeInPlace(t *testing.T) {
	for _, bad := range []*fault{nil, {lost: true}, {status: 503}, {status: 412}} {
		t.Run(fmt.Sprintf("%+v", bad), func(t *testing.T) {
			f, dir := newFake(t)
			set(t, dir, false, withInterfaces("", item("a", "", ""), item("b", "lan", `,"properties":[{"capacity":1000}]`)))
			finish(t, dir)
			i := f.instances[instanceName(testID)]
			if d := i.Devices["eth2"]; d["network"] != "pbl000" || i.Devices["eth1"] != nil {
				t.Fatalf("made with %v", i.Devices)
			}
			mac := i.Devices["eth2"]["hwaddr"]
			done := false
			f.fault = func(method, path string, _ int) *fault {
				if done || method != http.MethodPatch || path != "/instances/"+instanceName(testID) {
					return nil
				}
				done = true
				return bad
			}
			set(t, dir, false, withInterfaces("1", item("b", "lan", ""), item("c", "", "")))
			if r := get(t, dir); r["change_serial"] != "1" || r["state"] != "changing" {
				t.Errorf("%v", r)
			}
			finish(t, dir)
			if d := i.Devices["eth2"]; d["hwaddr"] != mac || i.Devices["eth0"]["type"] != "nic" {
				t.Errorf("changed to %v", i.Devices)
			}
			// The interface leaves the link, and another one joins.
			done = false
			set(t, dir, false, withInterfaces("2", item("c", "lan", "")))
			finish(t, dir)
			var nics []string
			for name, d := range i.Devices {
				if d["type"] == "nic" {
					nics = append(nics, name+" "+d["network"])
				}
			}
			slices.Sort(nics)
			if want := []string{"eth0 lxdbr0", "eth1 pbl000"}; !slices.Equal(nics, want) || i.facts().Bridges["s lan"] != "pbl000" {
				t.Errorf("devices %q, want %q; %v", nics, want, i.facts())
			}
			done = false
			set(t, dir, false, withInterfaces("3"))
			finish(t, dir)
			if r := get(t, dir); i.Devices["eth1"]["type"] != "none" || len(i.facts().Bridges) > 0 || r["state"] != "ready" || r["change_serial"] != "3" {
				t.Errorf("%v, %v, %v", i.Devices, i.facts(), r)
			}
		})
	}
}

// TestCapacityOfThreeChanges changes the capacity of a LAN with one call for each node. Nodes in
// one call must agree.
func TestCapacityOfThreeChanges(t *testing.T) {
	f, dir := newFake(t)
	capacity := func(n, kbits int) object {
		o := withInterfaces(fmt.Sprint(kbits), item(fmt.Sprintf("n%d", n), "lan", fmt.Sprintf(`,"properties":[{"capacity":%d}]`, kbits)))
		o["hostname"] = fmt.Sprintf("n%d", n)
		return o
	}
	for _, kbits := range []int{1000, 2000} {
		for n := range 3 {
			if refused := setOther(t, dir, false, idOf(n), capacity(n, kbits)); refused != "" {
				t.Fatal(refused)
			}
		}
		finish(t, dir)
		for n := range 3 {
			if got := f.instances[instanceName(idOf(n))].Devices["eth1"]["limits.ingress"]; got != fmt.Sprintf("%dkbit", kbits) {
				t.Errorf("node %d has the limit %q", n, got)
			}
		}
	}
	// In one call, the nodes must agree.
	release := claim(t, dir)
	var updates []object
	for n := range 3 {
		updates = append(updates, object{"name": idOf(n), "should": capacity(n, 3000+n)})
	}
	o := call(t, dir, "set", object{"updates": updates, "ral": object{"noop": true}})
	release()
	if list, _ := o["changes"].([]any); len(list) != 3 || !strings.Contains(fmt.Sprint(list), string(provider.Unsupported)) {
		t.Errorf("%v", o)
	}
}

func TestStepsChangeInPlace(t *testing.T) {
	step := func(command string) string {
		return fmt.Sprintf(`{"kind":"execute","shell":"sh","command":%q,"stage":1}`, command)
	}
	f, dir := newFake(t)
	f.says = func(string) string { return `{"state":"done","exit":0,"output":"once"}` }
	withSteps := func(serial string, steps ...string) object {
		o := maps.Clone(present)
		if o["setup_stage"] = "1"; len(steps) > 0 {
			o["setup"] = steps
		}
		if serial != "" {
			o["change_serial"] = serial
		}
		return o
	}
	set(t, dir, false, withSteps("", step("a"), step("b")))
	finish(t, dir)
	services := func() (list []string) {
		all, _ := get(t, dir)["services"].([]any)
		for _, s := range all {
			list = append(list, fmt.Sprint(s))
		}
		return list
	}
	if list := services(); len(list) != 2 || !strings.Contains(list[1], "done") {
		t.Fatalf("%q", list)
	}
	before := services()[1]
	set(t, dir, false, withSteps("1", step("new"), strings.Replace(step("b"), ",", ", ", 1)))
	if list := services(); len(list) != 2 || !strings.Contains(list[0], setup.Waiting) || list[1] != before {
		t.Errorf("requested: %q", list)
	}
	finish(t, dir)
	if list := services(); len(list) != 2 || !strings.Contains(list[0], "done") || list[1] != before {
		t.Errorf("%q", list)
	}
	i := f.instances[instanceName(testID)]
	if s, err := stepsFor(i.node(), i); err != nil || s.changed != nil || len(s.items) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	// The same change once more, an update of something else, and no steps.
	set(t, dir, false, object{"change_serial": "1", "hostname": "other"})
	finish(t, dir)
	if list := services(); len(list) != 2 {
		t.Errorf("after another update: %q", list)
	}
	set(t, dir, false, withSteps("2"))
	finish(t, dir)
	if list := services(); len(list) > 0 || get(t, dir)["state"] != "ready" {
		t.Errorf("without steps: %q", list)
	}
	// Too many changes are refused, in the dry run as well.
	for n := range 3 {
		var many []string
		for k := range 256 {
			many = append(many, step(fmt.Sprint(n, " ", k)))
		}
		should := withSteps(fmt.Sprint(3+n), many...)
		should["setup_stage"] = "0"
		if kind, message := set(t, dir, false, should); kind != "" {
			t.Fatalf("%s %s", kind, message)
		}
		finish(t, dir)
	}
	last := make([]string, 256)
	for k := range last {
		last[k] = step(fmt.Sprint("last ", k))
	}
	if kind, message := set(t, dir, true, withSteps("6", last...)); kind == "" || !strings.Contains(message, "changed too often") {
		t.Errorf("%s %q", kind, message)
	}
}
