package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// attempt is a call with arguments that a mistake may replace.
type attempt struct {
	caller      *caller
	urns        xmlrpc.Value // or the slice URN
	credentials xmlrpc.Value
	third       xmlrpc.Value // the argument before the options, if there is one
	options     xmlrpc.Value
	shutdown    bool
	state       string
}

// mistake makes one argument of a call wrong.
type mistake struct {
	rule  string
	spoil func(*attempt)
	code  am.Code
	says  string
}

// TestFirstMistakeIsReported makes calls with two mistakes. The answer reports the one that comes
// first in this order: the shape of the arguments, the caller, the credentials, the slice, its
// slivers, the options, the work.
func TestFirstMistakeIsReported(t *testing.T) {
	b := newBench(t)
	x, y := b.x.URN.String(), b.y.URN.String()
	elsewhere := newSite(t)
	elsewhere.trial = newAuthority(t, t.TempDir(), elsewhere.now)
	stranger := elsewhere.user("mallory")
	stranger.site = b.site
	_, other := b.alice.slice("other", time.Hour)

	set := func(name string, v xmlrpc.Value) func(*attempt) {
		return func(a *attempt) {
			if o, ok := a.options.(xmlrpc.Struct); ok {
				o = slices.DeleteFunc(slices.Clone(o), func(m xmlrpc.Member) bool { return m.Name == name })
				a.options = append(o, opt(name, v))
			}
		}
	}
	state := func(s string) func(*attempt) { return func(a *attempt) { a.state = s } }
	third := func(v xmlrpc.Value) func(*attempt) { return func(a *attempt) { a.third = v } }
	shapes := []mistake{
		{"urns of a node", func(a *attempt) {
			if a.urns = "urn:publicid:IDN+example.org+node+pc1"; a.state != "" {
				a.urns = strs("urn:publicid:IDN+example.org+node+pc1")
			}
		}, am.BadArgs, "not a slice|name one slice"},
		{"credentials that are no list", func(a *attempt) { a.credentials = b.cred }, am.BadArgs, "argument credentials"},
	}
	options := mistake{"options that are no struct", func(a *attempt) { a.options = "none" }, am.BadArgs, "argument options"}
	standing := []mistake{
		{"speaking for a number", set("geni_speaking_for", 7), am.BadArgs, "geni_speaking_for"},
		{"a stranger", func(a *attempt) { a.caller = stranger }, am.Forbidden, ""},
		{"speaking for another", set("geni_speaking_for", "urn:publicid:IDN+example.org+user+bob"), am.Forbidden, "bob"},
		{"another slice's credential", func(a *attempt) { a.credentials = creds(other) }, am.Forbidden, ""},
		{"a slice that is shut down", func(a *attempt) { a.shutdown = true }, am.Forbidden, "was shut down"},
	}
	absent := mistake{"a missing sliver", func(a *attempt) { a.urns = strs(x, missing) }, am.SearchFailed, "no sliver"}
	version := mistake{"no RSpec version", func(a *attempt) {
		if o, ok := a.options.(xmlrpc.Struct); ok {
			a.options = slices.DeleteFunc(slices.Clone(o), func(m xmlrpc.Member) bool { return m.Name == "geni_rspec_version" })
		}
	}, am.BadArgs, "geni_rspec_version"}
	effort := mistake{"half an effort", set("geni_best_effort", "half"), am.BadArgs, "geni_best_effort"}
	past := mistake{"an end in the past", set("geni_end_time", FormatTime(b.clock().Add(-time.Hour))), am.BadArgs, "past"}
	soon := mistake{"an end that is no time", set("geni_end_time", "soon"), am.BadArgs, "geni_end_time"}
	join := func(parts ...[]mistake) []mistake { return slices.Concat(parts...) }

	for _, m := range []struct {
		method   string
		third    xmlrpc.Value
		state    string
		mistakes []mistake // in their order
	}{
		{"Describe", nil, "ready", join(shapes, []mistake{options}, standing, []mistake{absent, version, effort})},
		{"Status", nil, "ready", join(shapes, []mistake{options}, standing, []mistake{absent, effort})},
		{"Delete", nil, "ready", join(shapes, []mistake{options}, standing, []mistake{absent, effort})},
		{"Provision", nil, "allocated", join(shapes, []mistake{options}, standing, []mistake{
			absent, version, effort, soon,
			{"users that are none", set("geni_users", "alice"), am.BadArgs, "geni_users"},
			past,
			{"one is provisioned", state("ready"), am.Unsupported, "geni_ready"},
		})},
		{"Renew", FormatTime(b.clock().Add(time.Hour)), "ready", join(shapes, []mistake{
			{"a time that is none", third("soon"), am.BadArgs, "expiration_time"}, options,
		}, standing, []mistake{
			absent, effort,
			{"half as long as possible", set("geni_extend_alap", "half"), am.BadArgs, "geni_extend_alap"},
			{"the past", third(FormatTime(b.clock().Add(-time.Hour))), am.BadArgs, "past"},
			{"too late", third(FormatTime(b.clock().Add(1000 * time.Hour))), am.Refused, "latest"},
		})},
		{"PerformOperationalAction", "geni_update_users", "ready", join(shapes, []mistake{
			{"an action that is a number", third(7), am.BadArgs, "argument action"}, options,
		}, standing, []mistake{
			absent, effort,
			{"users that are none", set("geni_users", "alice"), am.BadArgs, "geni_users"},
			{"an unknown action", third("reboot"), am.Unsupported, "reboot"},
			{"no users", func(a *attempt) {
				if o, ok := a.options.(xmlrpc.Struct); ok {
					a.options = slices.DeleteFunc(slices.Clone(o), func(m xmlrpc.Member) bool { return m.Name == "geni_users" })
				}
			}, am.BadArgs, "geni_users"},
			{"not ready", state("notready"), am.Refused, "geni_notready"},
		})},
		{"Allocate", request(node("z")), "", join(shapes, []mistake{
			{"a request that is a number", third(7), am.BadArgs, "argument rspec"}, options,
		}, standing, []mistake{
			soon,
			{"a request that is none", third("hello"), am.BadArgs, "line 1"},
			past,
			{"a start too late", set("geni_start_time", FormatTime(b.clock().Add(1000*time.Hour))), am.Refused, "geni_start_time"},
			{"a client_id again", third(request(node("x"))), am.Exists, `"x"`},
		})},
		{"Shutdown", nil, "", join(shapes, []mistake{options}, standing[:4])},
	} {
		for i, first := range m.mistakes {
			for _, second := range append(slices.Clone(m.mistakes[i+1:]), mistake{rule: "nothing else", spoil: func(*attempt) {}}) {
				a := attempt{
					caller: b.alice, credentials: creds(b.cred), third: m.third, state: m.state,
					options: opts(opt("geni_users", []xmlrpc.Value{user(b.alice.urn.String(), testKey)})),
				}
				if a.urns = b.slice; m.state != "" {
					a.urns = strs(x, y)
				}
				second.spoil(&a)
				first.spoil(&a)
				if second.rule == "nothing else" || first.says != second.says { // else they are one mistake
					b.attempt(m.method, a, first, second)
				}
			}
		}
	}
}

func (b *bench) attempt(method string, a attempt, first, second mistake) {
	b.t.Helper()
	state := a.state
	if state == "" {
		state = "ready"
	}
	record := b.record
	if a.shutdown {
		b.record.Shutdown = b.clock()
	}
	b.put(in(b.x, state), in(b.y, state))
	b.record = record
	params := []xmlrpc.Value{a.urns, a.credentials}
	if a.third != nil {
		params = append(params, a.third)
	}
	got := a.caller.call(method, append(params, a.options)...)
	says := first.says == ""
	for _, s := range strings.Split(first.says, "|") {
		says = says || strings.Contains(got.output, s)
	}
	if got.code != first.code || !says {
		b.t.Errorf("%s with %s and %s: code %d %q, want %d saying %q", method, first.rule, second.rule, got.code, got.output, first.code, first.says)
	}
}

// TestShutDownAndUnknownSlices checks that a slice that is shut down refuses every method except
// Shutdown: by slice URN and by sliver URN, with and without best effort. An unknown slice is not
// found by any method except Describe.
func TestShutDownAndUnknownSlices(t *testing.T) {
	b := newBench(t)
	const expected = `
	                            known  unknown  shut-down
	Describe                    0      0        3
	Status                      0      12       3
	Provision                   0      12       3
	Renew                       0      12       3
	Delete                      0      12       3
	Shutdown                    0      12       0
	Allocate                    0      0        3
	geni_start                  0      12       3
	geni_restart                0      12       3
	geni_stop                   0      12       3
	geni_update_users           0      12       3
	geni_updating_users_cancel  0      12       3
	reboot                      13     12       3`
	start := map[string]string{"Provision": "allocated", "geni_start": "notready", "geni_updating_users_cancel": "updating_users"}
	codes := map[string]am.Code{"0": am.Success, "3": am.Forbidden, "12": am.SearchFailed, "13": am.Unsupported}
	for _, line := range strings.Split(strings.TrimSpace(expected), "\n")[1:] {
		f := strings.Fields(line)
		state := start[f[0]]
		if state == "" {
			state = "ready"
		}
		for i, situation := range []string{"known", "unknown", "shut down"} {
			for _, form := range []string{"slice URN", "sliver URN", "best effort"} {
				want := codes[f[i+1]]
				byName := f[0] == "Allocate" || f[0] == "Shutdown"
				if byName && form != "slice URN" {
					continue
				}
				if form != "slice URN" && situation == "unknown" {
					want = am.SearchFailed // also for Describe
				}
				record := b.record
				if situation == "shut down" {
					b.record.Shutdown = b.clock()
				}
				if situation == "unknown" {
					b.put()
				} else {
					b.put(in(b.x, state))
				}
				b.record = record
				target := b.slice
				if form != "slice URN" {
					target = b.x.URN.String()
				}
				a := b.do(f[0], form == "best effort", target)
				if a.code != want {
					t.Errorf("%s, %s slice, %s: code %d %q, want %d", f[0], situation, form, a.code, a.output, want)
				}
				if situation == "shut down" && b.status(b.x) != column(state) {
					t.Errorf("%s, %s slice, %s: it went to %v", f[0], situation, form, b.status(b.x))
				}
			}
		}
	}
}
