package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am/service"
)

func TestListResources2(t *testing.T) {
	w := newWorld(t)
	full := w.play("alice ListResources").answer.at("value").text
	if got := w.play("alice ListResources2").answer.at("value").text; got != full {
		t.Error("the versions advertise differently")
	}
	if got := unzip(t, w.play("alice ListResources2 geni_compressed=true").answer.at("value").text); got != full {
		t.Error("the compressed advertisement differs")
	}
	manifest := w.play(`
		alice owns s1 24h
		alice ListResources2 with=s1
		alice ListResources2 with=none -> BADARGS
		alice ListResources2 s1 with=user -> FORBIDDEN
		alice ListResources2 s1 with=none -> FORBIDDEN
		alice CreateSliver s1 a
		alice ListResources2 geni_available=true -> !'component_name="pc1"' 23*"<node "
		alice ListResources2 s1 -> 'type="manifest"' 'client_id="a"'
	`).answer.at("value").text
	// geni_available has no meaning for a slice: the manifest has all nodes.
	if got := unzip(t, w.play("alice ListResources2 s1 geni_compressed=1 geni_available=true").answer.at("value").text); got != manifest {
		t.Errorf("compressed and available:\n%s", got)
	}
}

// TestListResourcesOfASliceWithoutSliversIsAnEmptyManifest checks that ListResources answers an
// empty manifest: "aggregates should NOT return an error" (AM API v2, ListResources). The site's
// setting for Describe applies to it, too.
func TestListResourcesOfASliceWithoutSliversIsAnEmptyManifest(t *testing.T) {
	const empty = `'type="manifest"' "manifest.xsd" !"<node "`
	for _, tt := range []struct {
		rule string
		setting
		want string
	}{
		{"by default", setting{}, empty},
		{"where the site says not-found", setting{emptyNotFound: true}, "SEARCHFAILED"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			tt.world(t).play(strings.ReplaceAll(`
				alice owns s1 24h
				mallory owns m 24h
				alice ListResources2 s1 -> EMPTY
				alice Describe s1 -> EMPTY
				mallory ListResources2 s1 with=m -> FORBIDDEN
				alice CreateSliver s1 a
				alice ListResources2 s1 -> "<node "
				alice DeleteSliver s1
				alice ListResources2 s1 -> EMPTY
			`, "EMPTY", tt.want))
		})
	}
}

func TestGetVersionNamesSliverInfoOnlyWhereManifestsHaveIt(t *testing.T) {
	const space = `"http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1"`
	for _, version := range []string{"GetVersion", "GetVersion2"} {
		newWorld(t).play("alice " + version + " -> !" + space)
		setting{extensions: []string{service.VNode}}.world(t).play("alice " + version + " -> !" + space)
		setting{extensions: []string{service.SliverInfo}}.world(t).play("alice " + version + " -> " + space)
	}
}

// TestVersion2Life makes omni's calls in version 2. No action is needed, and a deleted sliver is
// not found from then on, also while its provider still removes it.
func TestVersion2Life(t *testing.T) {
	gone := `
		alice SliverStatus s1 -> SEARCHFAILED
		alice RenewSliver s1 +1h -> SEARCHFAILED
		alice DeleteSliver s1 -> SEARCHFAILED
		alice Shutdown2 s1 -> SEARCHFAILED
		alice ListResources2 s1 -> 'type="manifest"' !"<node "
	`
	newWorld(t).play(`
		alice owns s1 48h
	`+gone+`
		alice CreateSliver s1 a b users=alice -> 'type="manifest"' "manifest.xsd" 2*'sliver_id="urn:publicid:IDN+example.org+sliver+'
		alice SliverStatus s1 -> value.geni_status=<string>configuring a:configuring b:configuring @+24h
		settle
		alice SliverStatus s1 -> value.geni_status=<string>ready a:ready b:ready value.geni_urn=<string>s1 value.geni_expires=<string>+24h value.pg_expires=<string>+24h
		alice ListResources2 s1 -> 'authentication="ssh-keys"' 'hostname="pc1.example.org"' 'port="22"' 'username="alice"'
		alice CreateSliver s1 c -> ALREADYEXISTS
		alice SliverStatus s1 -> a:ready b:ready
		alice DeleteSliver s1 -> value=<boolean>1 output=<string>''
	`+gone+"settle"+gone).wantNothing(t, "after DeleteSliver")
}

func TestRenewSliver(t *testing.T) {
	newWorld(t, "limit", FormatTime(began.Add(240*time.Hour))).play(`
		alice owns s1 10d
		alice CreateSliver s1 a
		alice RenewSliver s1 +48h -> value=<boolean>1 output=<string>''
		alice SliverStatus s1 -> @+48h
		alice RenewSliver s1 +241h -> REFUSED code.am_code=<int>19 $limit
		alice RenewSliver s1 -1s -> BADARGS
		alice RenewSliver s1 soon -> BADARGS
		alice SliverStatus s1 -> @+48h
		alice RenewSliver s1 +1h
		alice SliverStatus s1 -> @+1h
		alice RenewSliver s1 +50h geni_extend_alap=true -> value=<boolean>1 output=<string>+50h
		alice RenewSliver s1 +9999h geni_extend_alap=true -> output=<string>+240h
		alice SliverStatus s1 -> @+240h
		alice owns s1 60d as longer
		alice RenewSliver s1 +9999h geni_extend_alap=true with=s1,longer -> output=<string>+30d
		alice SliverStatus s1 -> @+30d
	`)
}

// TestFirstMistakeIsReported2 makes version 2 calls with two mistakes. The answer reports the one
// that comes first in this order: shape, rights, a slice that is shut down, an unknown slice,
// options.
func TestFirstMistakeIsReported2(t *testing.T) {
	newWorld(t, "hello", "hello", "strange", `<node client_id="a"><sliver_type name="quantum"/></node>`, "alice", "urn:publicid:IDN+example.org+user+alice").play(`
		alice owns made 24h
		alice owns empty 24h
		alice owns shut 24h
		alice CreateSliver made a
		alice CreateSliver shut a
		alice Shutdown2 shut
		alice SliverStatus $alice with=user -> BADARGS
		alice RenewSliver made soon with=user -> BADARGS
		alice SliverStatus shut with=made -> FORBIDDEN
		alice DeleteSliver empty with=user -> FORBIDDEN
		alice Shutdown2 empty with=made -> FORBIDDEN
		alice ListResources2 empty with=user -> FORBIDDEN
		alice CreateSliver empty $hello with=user -> FORBIDDEN
		alice RenewSliver shut -1h -> FORBIDDEN
		alice RenewSliver shut +1h geni_extend_alap=maybe -> FORBIDDEN
		alice ListResources2 shut version= -> FORBIDDEN
		alice CreateSliver shut a -> FORBIDDEN
		alice RenewSliver empty -1h -> SEARCHFAILED
		alice RenewSliver empty +1h geni_extend_alap=maybe -> SEARCHFAILED
		alice CreateSliver made $strange -> ALREADYEXISTS
	`)
}

// TestUsersOfVersion2 sends an empty list of users without options, as jFed may, and a list with a
// user without keys.
func TestUsersOfVersion2(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h")
	w.who("alice").ask(2, "CreateSliver", w.urns["s1"], strs(w.creds["s1"]), request(node("a")), strs()).want(t, "without options, as jFed may", 0)
	w.play(`
		settle
		alice ListResources2 s1 -> !"<login"
		alice DeleteSliver s1
		settle
		alice CreateSliver s1 a users=alice,bob,none-
		settle
		alice ListResources2 s1 -> 2*"<login" 'username="alice"' 'username="bob"'
	`)
}

func TestCreateSliverLease(t *testing.T) {
	newWorld(t).play(`
		alice owns a 48h
		alice CreateSliver a n
		alice SliverStatus a -> @+24h
		alice owns c 48h
		alice CreateSliver c n geni_end_time=+30h
		alice SliverStatus c -> @+30h
	`)
}
