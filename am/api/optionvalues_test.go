package api

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// expectedOptions lists the options that each method must understand (AM API v3,
// "Options", and v2). It is written by hand. A method must ignore all other options,
// with any value.
const expectedOptions = `
v3 GetVersion:
v3 ListResources:             geni_speaking_for geni_rspec_version geni_available geni_compressed no_slice_urn geni_end_time ad_start_time
v3 Describe:                  geni_speaking_for geni_rspec_version geni_compressed geni_best_effort
v3 Allocate:                  geni_speaking_for geni_end_time geni_start_time patchbay_provision_at_start patchbay_change patchbay_preview
v3 Provision:                 geni_speaking_for geni_rspec_version geni_best_effort geni_end_time patchbay_provision_at_start geni_users
v3 Renew:                     geni_speaking_for geni_best_effort geni_extend_alap geni_end_time
v3 Status:                    geni_speaking_for geni_best_effort
v3 PerformOperationalAction:  geni_speaking_for geni_best_effort geni_users
v3 Delete:                    geni_speaking_for geni_best_effort
v3 Shutdown:                  geni_speaking_for
v2 GetVersion:
v2 ListResources:             geni_speaking_for geni_rspec_version geni_available geni_compressed geni_slice_urn geni_end_time ad_start_time
v2 CreateSliver:              geni_speaking_for geni_end_time geni_start_time
v2 DeleteSliver:              geni_speaking_for
v2 SliverStatus:              geni_speaking_for
v2 RenewSliver:               geni_speaking_for geni_extend_alap
v2 Shutdown:                  geni_speaking_for
`

// expectedValues is the code to answer for each value where the option is
// understood.
const expectedValues = `
geni_available      true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
geni_compressed     true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
geni_best_effort    true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
patchbay_provision_at_start true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
patchbay_change     true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
patchbay_preview    array:0 nil:0 no-sliver:12 slice:1 "maybe":1 struct:1 one:1 true:1 alice:1 junk-list:1 node-list:1 many:1
geni_extend_alap    true:0 false:0 one:0 zero:0 "true":0 "FALSE":0 nil:0 two:1 "maybe":1 "":1 struct:1 array:1
geni_end_time       later:0 soon:0 far:0 later+02:00:0 later.5:0 later-without-zone:0 "":0 nil:0 past:1 now:1 "maybe":1 day:1 one:1 struct:1 array:1
geni_start_time     past:0 now:0 "":0 nil:0 later:0 later-without-zone:0 far:7 "maybe":1 day:1 one:1 struct:1 array:1
ad_start_time       past:0 now:0 "":0 nil:0 later:0 later-without-zone:0 far:1 "maybe":1 day:1 one:1 struct:1 array:1
geni_rspec_version  GENI3:0 geni3-as-int:0 absent:1 nil:1 GENI4:4 ProtoGENI2:4 no-version:1 no-type:1 type-one:1 struct:1 array:1 one:1 "GENI3":1 "":1
geni_users          alice:0 twice:0 keyless:0 array:0 extra-member:0 many-keys:1 urnless:1 no-keys:1 junk-key:1 of-a-slice:1 "maybe":1 one:1 struct:1
no_slice_urn        slice:1 "":1 "maybe":1 one:1 nil:0
geni_slice_urn      "":0 nil:0 slice:3 "maybe":1 node:1 one:1 struct:1 array:1
geni_speaking_for   oneself:0 "":0 nil:0 other:3 slice:3 "maybe":3 one:1 struct:1 array:1
geni_certificate    "maybe":0 one:0 nil:0
x_example_option    struct:0 array:0
blocking            true:0
call_id             one:0
geni_cancelled      true:0
geni_allocate       "maybe":0
`

// values are the values by their names; a quoted name is itself.
func (b *bench) values() map[string]xmlrpc.Value {
	at := func(d time.Duration) string { return FormatTime(b.clock().Add(d)) }
	version := func(typ, ver xmlrpc.Value) xmlrpc.Struct { return xmlrpc.Struct{opt("type", typ), opt("version", ver)} }
	alice := b.alice.urn.String()
	return map[string]xmlrpc.Value{
		"true": true, "false": false, "one": 1, "zero": 0, "two": 2, "struct": xmlrpc.Struct{}, "array": []xmlrpc.Value{}, "nil": "NIL", "absent": nil,
		"later": at(time.Hour), "soon": at(time.Minute), "far": at(1000 * 24 * time.Hour), "past": at(-time.Second), "now": at(0), "day": at(time.Hour)[:10],
		"later+02:00": b.clock().Add(time.Hour).In(time.FixedZone("", 7200)).Format(time.RFC3339), "later.5": strings.Replace(at(time.Hour), "Z", ".5Z", 1),
		"later-without-zone": strings.TrimSuffix(at(time.Hour), "Z"),
		"GENI3":              version("GENI", "3"), "geni3-as-int": version(" geni ", 3), "GENI4": version("GENI", "4"), "ProtoGENI2": version("ProtoGENI", "2"),
		"no-version": version("GENI", "3")[:1], "no-type": version("GENI", "3")[1:], "type-one": version(1, "3"),
		"alice": []xmlrpc.Value{user(alice, testKey)}, "twice": []xmlrpc.Value{user(alice, testKey), user(alice)}, "keyless": []xmlrpc.Value{user(alice)},
		"urnless": []xmlrpc.Value{user(alice)[1:]}, "no-keys": []xmlrpc.Value{user(alice)[:1]}, "junk-key": []xmlrpc.Value{user(alice, "ssh-junk AAAA")},
		"of-a-slice":   []xmlrpc.Value{user(b.slice, testKey)},
		"extra-member": []xmlrpc.Value{append(user(alice), opt("shell", 7))}, "many-keys": []xmlrpc.Value{user(alice, slices.Repeat([]xmlrpc.Value{testKey}, maxKeys+1)...)},
		"no-sliver": strs(missing), "junk-list": strs("maybe"), "node-list": strs("urn:publicid:IDN+example.org+node+pc1"), "many": slices.Repeat(strs(missing), maxTargets+1),
		"slice": b.slice, "node": "urn:publicid:IDN+example.org+node+pc1", "oneself": alice, "other": "urn:publicid:IDN+example.org+user+bob",
	}
}

// with calls a method that would succeed, with an option set to a value.
func (b *bench) with(version int, method, name string, value xmlrpc.Value) answer {
	b.t.Helper()
	switch method {
	case "CreateSliver":
		b.put()
	case "Provision":
		b.put(in(b.x, "allocated"))
	default:
		b.put(in(b.x, "ready"))
	}
	until, cred := FormatTime(b.clock().Add(time.Hour)), creds(b.cred)
	urns := strs(b.slice)
	args := map[string][]xmlrpc.Value{
		"GetVersion": {}, "ListResources": {creds(b.alice.user)}, "Allocate": {b.slice, cred, request(node("z"))},
		"Renew": {urns, cred, until}, "PerformOperationalAction": {urns, cred, "geni_start"},
		"CreateSliver": {b.slice, cred, request(node("z")), []xmlrpc.Value{}}, "RenewSliver": {b.slice, cred, until},
		"Describe": {urns, cred}, "Provision": {urns, cred}, "Status": {urns, cred}, "Delete": {urns, cred},
		"DeleteSliver": {b.slice, cred}, "SliverStatus": {b.slice, cred}, "Shutdown": {b.slice, cred},
	}[method]
	o := opts()
	if name == "geni_rspec_version" {
		o = nil
	}
	if value != nil {
		o = append(o, opt(name, value))
	}
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: append(args, append(xmlrpc.Struct{}, o...))})
	if err != nil {
		b.t.Fatal(err)
	}
	body = bytes.Replace(body, []byte("<string>NIL</string>"), []byte("<nil/>"), 1)
	return b.serveVersion(version, Request{ID: "r1", Chain: b.alice.chain, Body: body})
}

// TestEveryOptionOfEveryMethod gives each method each option with each value.
func TestEveryOptionOfEveryMethod(t *testing.T) {
	b := newBench(t)
	values := b.values()
	sent := strings.NewReplacer("no_slice_urn", "geni_slice_urn", "ad_start_time", "geni_start_time")
	understood := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(expectedOptions), "\n") {
		name, options, _ := strings.Cut(line, ":")
		understood[name] = strings.Fields(options)
	}
	for version, rows := range tables {
		for _, m := range rows {
			method := map[int]string{Version2: "v2 ", Version3: "v3 "}[version] + m.name
			takes, ok := understood[method]
			if !ok {
				t.Errorf("nothing is expected of %s", method)
			}
			for _, line := range strings.Split(strings.TrimSpace(expectedValues), "\n") {
				f := strings.Fields(line)
				understands := slices.Contains(takes, f[0])
				name := sent.Replace(f[0])
				if !understands && slices.ContainsFunc(takes, func(s string) bool {
					return s != f[0] && sent.Replace(s) == name
				}) {
					continue // the other of the two
				}
				cells := f[1:]
				if !understands { // two of them show that it is ignored
					cells = append(cells[:1:1], cells[len(cells)-1])
				}
				for _, cell := range cells {
					i := strings.LastIndex(cell, ":")
					value, ok := values[cell[:i]]
					if strings.HasPrefix(cell, `"`) {
						value, ok = strings.Trim(cell[:i], `"`), true
					}
					if !ok {
						t.Fatalf("unknown cell %s", cell)
					}
					want := map[string]am.Code{"0": am.Success, "1": am.BadArgs, "3": am.Forbidden, "4": am.BadVersion, "7": am.Refused, "12": am.SearchFailed, "13": am.Unsupported}[cell[i+1:]]
					if !understands {
						want = am.Success
					}
					if a := b.with(version, m.name, name, value); a.code != want {
						t.Errorf("%s with %s = %s: code %d %q, want %d", method, name, cell[:i], a.code, a.output, want)
					}
				}
			}
		}
	}
}

// TestOptionRowsAreTried checks that the lists above have every option of the code's tables.
func TestOptionRowsAreTried(t *testing.T) {
	for _, o := range allOptions() {
		if !strings.Contains(expectedValues, "\n"+o.name+" ") {
			t.Errorf("no values for %s", o.name)
		}
		if o.effect == "" || o.kind == "" {
			t.Errorf("option %s has no effect or kind", o.name)
		}
	}
}
