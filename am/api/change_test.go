package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// changeable has nodes a and b on a LAN. inside maps a node to what is inside its element.
func changeable(inside map[string]string, lan ...string) string {
	var all []string
	for _, n := range []string{"a", "b", "c"} {
		text, ok := inside[n]
		if !ok && n == "c" {
			continue
		}
		attributes, content, _ := strings.Cut(text, "|")
		all = append(all, fmt.Sprintf(`<node client_id="%s" %s>%s<interface client_id="%s:0"/></node>`, n, attributes, content, n))
	}
	link := `<link client_id="l">`
	for _, n := range lan {
		link += `<interface_ref client_id="` + n + `:0"/>`
	}
	return request(append(all, link+"</link>")...)
}

// slivers returns all records as text.
func (w *world) slivers() string {
	w.t.Helper()
	all, err := w.store.Slivers()
	text, errJSON := json.MarshalIndent(all, "", " ")
	if err = errors.Join(err, errJSON); err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// TestRefusedChanges requests changes that an existing node cannot get. Allocate and its preview
// refuse them, and no sliver changes. The neighbour of each row is an acceptable change.
func TestRefusedChanges(t *testing.T) {
	const ready = "alice Provision s1 geni_users=alice\nsettle\nalice PerformOperationalAction s1 geni_start\nsettle\n"
	const match = `|<require xmlns="http://patchbay.example.org/rspec/ext/match/1" feature="cpu.count" op="ge" value="%d"/><sliver_type name="vm"/>`
	const disk = `|<sliver_type name="vm"/><services><disk xmlns="http://patchbay.example.org/rspec/ext/setup/1" size="%dG" mount_path="/d" fstype="ext4"/></services>`
	node := func(a string) map[string]string { return map[string]string{"a": a} }
	vm := node(`|<sliver_type name="vm"/>`)
	for _, tt := range []struct {
		rule               string
		setting            setting
		first, state       string
		refused, want      string
		neighbour, further string // further comes before it
	}{
		{"another component", setting{}, changeable(nil, "a", "b"), ready,
			changeable(node(`component_id="urn:publicid:IDN+example.org+node+pc9"`), "a", "b"), `UNSUPPORTED 'it is on pc1, and a node cannot move; Delete the node first, or leave this as it was'`,
			changeable(node(`component_id="urn:publicid:IDN+example.org+node+pc1"`), "a", "b"), ""},
		{"another type", setting{}, changeable(nil, "a", "b"), ready,
			changeable(vm, "a", "b"), `UNSUPPORTED 'pc1 does not offer vm'`, changeable(node(`|<sliver_type name="raw"/>`), "a", "b"), ""},
		{"another image", setting{}, changeable(nil, "a", "b"), ready,
			changeable(node(`|<sliver_type name="raw-pc"><disk_image name="ubuntu-24"/></sliver_type>`), "a", "b"), `UNSUPPORTED 'it has the disk image debian-12, not ubuntu-24'`,
			changeable(node(`|<sliver_type name="raw-pc"><disk_image name="debian-12"/></sliver_type>`), "a", "b"), ""},
		{"exclusive", setting{}, changeable(vm, "a", "b"), "",
			changeable(node(`exclusive="true"|<sliver_type name="vm"/>`), "a", "b"), `UNSUPPORTED 'whether it is exclusive cannot change'`,
			changeable(node(`exclusive="false"|<sliver_type name="vm"/>`), "a", "b"), ""},
		{"another size", setting{}, changeable(node(fmt.Sprintf(match, 2)), "a", "b"), "",
			changeable(node(fmt.Sprintf(match, 3)), "a", "b"), `UNSUPPORTED 'its constraints ask for another size, which cannot change'`, changeable(node(fmt.Sprintf(match, 2)), "a"), ""},
		{"another disk", setting{}, changeable(vm, "a", "b"), "",
			changeable(node(fmt.Sprintf(disk, 3)), "a", "b"), `UNSUPPORTED 'its disks have 0 MiB, not 3072; Delete the node first, or leave this as it was'`, changeable(vm, "a"), ""},
		{"a node that is being switched off", setting{}, changeable(nil, "a", "b"), ready + "alice PerformOperationalAction s1.a geni_stop",
			changeable(nil, "b"), `UNSUPPORTED 'node "a"'`, changeable(nil, "b"), "settle"},
		{"a node whose users are replaced", setting{}, changeable(nil, "a", "b"), ready + "alice PerformOperationalAction s1.a geni_update_users geni_users=alice",
			changeable(nil, "b"), `UNSUPPORTED 'node "a"'`, changeable(nil, "b"), "settle"},
		{"a provider that cannot", setting{changes: func(string) bool { return false }}, changeable(nil, "a", "b"), ready,
			changeable(nil, "b"), `UNSUPPORTED 'the testbed of pc1 cannot change links and steps of a node that exists; Delete the node first, or leave both as they were'`,
			changeable(map[string]string{"c": ""}, "a", "b", "c"), ""},
		{"a slice that was shut down", setting{}, changeable(nil, "a", "b"), ready + "alice Shutdown s1", changeable(nil, "b"), "FORBIDDEN", changeable(nil, "b"), "thaw s1\nsettle"},
		{"more than the policy permits", setting{policy: "rules: [{name: few, nodes: {slice: 2}}]"}, changeable(nil, "a", "b"), ready,
			changeable(map[string]string{"c": ""}, "a", "b", "c"), `REFUSED 'allows at most 2 nodes for slice s1'`, changeable(nil, "a"), ""},
		{"a locked site", setting{}, changeable(nil, "a", "b"), ready + "maintenance $locked", changeable(nil, "b"), "UNAVAILABLE", changeable(nil, "b"), "maintenance $open"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := tt.setting.world(t, "first", tt.first, "refused", tt.refused, "neighbour", tt.neighbour, "locked", locked, "open", "")
			w.play("alice owns s1 48h\nalice Allocate s1 $first\n" + tt.state)
			a, b, before := w.urns["s1.a"], w.urns["s1.b"], w.slivers()
			unchanged := func() {
				t.Helper()
				if diff := cmp.Diff(before, w.slivers()); diff != "" {
					t.Errorf("the slivers have changed: %s", diff)
				}
			}
			w.play("alice Allocate s1 $refused patchbay_change=1 patchbay_preview= -> " + tt.want)
			w.play("alice Allocate s1 $refused patchbay_change=1 -> " + tt.want)
			unchanged()
			w.play(tt.further)
			before = w.slivers()
			w.play("alice Allocate s1 $neighbour patchbay_change=1 patchbay_preview= -> 'this was a preview' #0")
			unchanged()
			w.play("alice Allocate s1 $neighbour patchbay_change=1 -> '" + a + "' '" + b + "'")
		})
	}
}

// TestNamesInWarnings checks that a warning about a client_id gives the name of the node in the
// whole slice, not the name it would have if the request were alone.
func TestNamesInWarnings(t *testing.T) {
	const unreached = `cannot be reached by its client_id`
	for _, tt := range []struct{ rule, first, then, options, want string }{
		{"a new slice", "", request(node("pc"), node("PC")), "", `'node "pc" ` + unreached + `' "use its name pc-2" 'node "PC" ` + unreached + `' "use its name pc-3"`},
		{"a kept node has the name", request(node("pc")), request(node("pc"), node("PC")), "patchbay_change=1", `!'node "pc" ` + unreached + `' 'node "PC" ` + unreached + `' "use its name pc-2" !"pc-3"`},
		{"so says a preview", request(node("pc")), request(node("pc"), node("PC")), "patchbay_change=1 patchbay_preview=", `!'node "pc" ` + unreached + `' "use its name pc-2" !"pc-3"`},
		{"the other order", request(node("PC")), request(node("pc"), node("PC")), "patchbay_change=1", `'node "pc" ` + unreached + `' "use its name pc-2" !'node "PC" ` + unreached + `'`},
		{"numbers stay", request(node("pc"), node("PC")), request(node("PC")), "patchbay_change=1", `'node "PC" ` + unreached + `' "use its name pc-3"`},
		{"another request of the slice", request(node("pc")), request(node("PC")), "", `'node "PC" ` + unreached + `' "it means another node of the slice; use its name pc-2"`},
		{"no conflict", request(node("pc")), request(node("web")), "", `!"` + unreached + `"`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := setting{}.world(t, "first", tt.first, "then", tt.then)
			w.play("alice owns s1 48h")
			if tt.first != "" {
				w.play("alice Allocate s1 $first")
			}
			w.play("alice Allocate s1 $then " + tt.options + " -> " + tt.want)
		})
	}
}

// TestPreviewsOfChanges checks that a preview decides as if the named slivers were deleted, and
// accepts slivers of its own slice only.
func TestPreviewsOfChanges(t *testing.T) {
	w := setting{policy: "rules: [{name: few, nodes: {slice: 2}}]"}.world(t, "a", onNode("a", "pc1"), "b", onNode("b", "pc2"), "c", onNode("c", "pc1"), "taken", onNode("c", "pc3"),
		"three", request(node("a"), node("b"), node("c")), "all", changeable(nil, "a", "b"))
	w.play(`
		alice owns s1 48h
		alice Allocate s1 $a $b
		bob owns s2 48h
		bob Allocate s2 x@pc3
	`)
	before := w.slivers()
	w.play(`
		alice Allocate s1 $b $c patchbay_change=1 -> REFUSED|TOOBIG
		alice Allocate s1 $b $c patchbay_change=1 patchbay_preview= -> REFUSED|TOOBIG
		alice Allocate s1 $b $c patchbay_change=1 patchbay_preview=s1.a -> 'this was a preview' #0
		alice Allocate s1 $b $c patchbay_change=1 patchbay_preview=s1.a,s1.a -> #0
		alice Allocate s1 $b $c patchbay_preview=s1.a -> ALREADYEXISTS
		alice Allocate s1 $b $c patchbay_preview=s1.a,s1.b -> #0
		alice Allocate s1 $three patchbay_change=1 patchbay_preview=s1.a -> REFUSED "at most 2 nodes for slice s1"
		alice Allocate s1 $b $taken patchbay_change=1 patchbay_preview=s1.a -> TOOBIG "pc3 is held"
		alice Allocate s1 $b $taken patchbay_change=1 patchbay_preview=s1.a,s2.x -> SEARCHFAILED "there is no sliver" "in this slice"
		alice Allocate s1 $b $c patchbay_change=1 patchbay_preview=nope -> SEARCHFAILED
		bob Allocate s2 $a patchbay_change=1 -> TOOBIG|REFUSED "pc1 is held"
		bob Allocate s2 $a patchbay_change=1 patchbay_preview=s1.a -> SEARCHFAILED
		bob Allocate s1 $b patchbay_change=1 with=s2 -> FORBIDDEN
		bob Allocate s1 $b patchbay_change=1 patchbay_preview=s1.a with=s2 -> FORBIDDEN
		alice Allocate s1 $b patchbay_changes=1 -> ALREADYEXISTS
		alice CreateSliver s1 $b patchbay_change=1 -> ALREADYEXISTS
		alice Allocate s1 $b patchbay_change=2 -> BADARGS
	`)
	if diff := cmp.Diff(before, w.slivers()); diff != "" {
		t.Errorf("the slivers have changed: %s", diff)
	}
	w.play("alice Delete s1.a\nsettle\nalice Allocate s1 $b $c patchbay_change=1 -> #2")
}

// leaving is a prober that refuses nodes with steps, and notes which nodes are being removed.
type leaving struct {
	noSetup
	names *[]string
}

func (l leaving) Probe(ctx context.Context, slivers, beingRemoved []am.Sliver, isChanged func(am.Sliver) bool) []*am.Error {
	for _, x := range beingRemoved {
		*l.names = append(*l.names, x.ClientID)
	}
	return l.noSetup.Probe(ctx, slivers, beingRemoved, isChanged)
}

// TestPreviewsAskProviders checks that the dry run of a preview counts the named slivers as
// removed, and that no preview changes a sliver.
func TestPreviewsAskProviders(t *testing.T) {
	var names []string
	const steps = `<services><execute shell="sh" command="true"/></services>`
	w := setting{prober: leaving{names: &names}}.world(t, "steps", strings.Replace(node("c"), "</node>", steps+"</node>", 1),
		"change", request(strings.Replace(node("b"), "</node>", steps+"</node>", 1))).play(`
		alice owns s1 48h
		alice Allocate s1 a b
	`)
	before := w.slivers()
	w.play(`
		alice Allocate s1 b $steps patchbay_change=1 patchbay_preview=s1.a -> UNSUPPORTED "no room for 1 steps"
		alice Allocate s1 b c patchbay_change=1 patchbay_preview=s1.a -> #0
	`)
	if diff := cmp.Diff(before, w.slivers()); diff != "" {
		t.Errorf("the slivers have changed: %s", diff)
	}
	w.play(`
		alice Provision s1
		settle
	`)
	before = w.slivers()
	w.play(`
		alice Allocate s1 $change patchbay_change=1 -> UNSUPPORTED "on pc2 it cannot be changed so: no room for 1 steps"
		alice Allocate s1 $change patchbay_change=1 patchbay_preview= -> UNSUPPORTED "on pc2 it cannot be changed so: no room for 1 steps"
	`)
	if diff := cmp.Diff(before, w.slivers()); diff != "" {
		t.Errorf("the slivers have changed: %s", diff)
	}
	if got := strings.Join(names, " "); got != "a a a a a" { // the refused one tries four components
		t.Errorf("the dry runs count %q as removed, want a in each", got)
	}
}

// TestChangeDuringADryRun sends a change of a slice while a dry run for another change of it is in
// progress. It is answered with BUSY, and the first change succeeds.
func TestChangeDuringADryRun(t *testing.T) {
	var w *world
	inside, nested := false, am.Success
	w = setting{prober: meanwhile{func() {
		if inside {
			return
		}
		inside = true
		c := w.who("alice")
		nested = c.ask(Version3, "Allocate", w.value("s1"), creds(w.creds["s1"]), w.texts["$two"], append(opts(), opt("patchbay_change", true))).code()
	}}}.world(t, "two", request(node("a"), node("b")))
	w.play(`
		alice owns s1 48h
		alice Allocate s1 a b
		alice Allocate s1 $two patchbay_change=1 -> #2
	`)
	if nested != am.Busy {
		t.Errorf("during the dry run, a change is answered with %v", nested)
	}
}

// TestHugeChange changes a link of 400 nodes, and names as many slivers in a preview as any call
// may name.
func TestHugeChange(t *testing.T) {
	var nodes []string
	for i := range 400 {
		nodes = append(nodes, fmt.Sprintf(`<node client_id="n%d"><sliver_type name="vm"/><interface client_id="n%d:0"/></node>`, i, i))
	}
	inventory := `
provider: rack
default_sliver_type: vm
sliver_types: [{name: vm}]
components: [{names: h1..h4, exclusive: false, capacity: {slots: 500}}]
`
	lan := func(ends int) string {
		text := `<link client_id="l">`
		for i := range ends {
			text += fmt.Sprintf(`<interface_ref client_id="n%d:0"/>`, i)
		}
		return request(append(nodes, text+"</link>")...)
	}
	w := setting{inventory: inventory}.world(t, "first", lan(10), "all", lan(250))
	w.play(`
		alice owns s1 48h
		alice Allocate s1 $first -> #400
		alice Allocate s1 $all patchbay_change=1 -> #400
	`)
	var list []xmlrpc.Value
	for range maxTargets {
		list = append(list, missing)
	}
	if a := w.who("alice").ask(Version3, "Allocate", w.value("s1"), creds(w.creds["s1"]), w.texts["$all"], append(opts(), opt("patchbay_preview", list))); a.code() != am.SearchFailed {
		t.Errorf("a long list: %d", a.code())
	}
}
