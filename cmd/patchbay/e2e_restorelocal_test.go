package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/wait"
)

// TestOnHostRestoredSite is TestRestoredSiteGivesNothingAway with real nodes. A node that
// the backup does not have continues, and its component stays unavailable until an
// operator removes it. A sliver of the backup whose node was deleted since is failed,
// with a reason.
func TestOnHostRestoredSite(t *testing.T) {
	s := newLocalSite(t, "restored.example.org")
	before := s.hostState()
	s.createUsers("first", "late", "other")
	request := filepath.Join(s.dir, "request.xml")
	s.start()
	s.createNodes(request, 2)
	kept := s.logins()["server"]
	s.wantOutput("alice", kept, "nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pid", "")
	backup := filepath.Join(t.TempDir(), "backup.db")
	s.runOK("backup", backup)

	// Since the backup one node is deleted, and another is created.
	var rows [2]operate.Sliver
	for i, line := range strings.SplitN(strings.TrimSpace(s.runOK("slivers", "first", "--json")), "\n", 2) {
		if err := json.Unmarshal([]byte(line), &rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	gone := rows[0]
	if gone.ClientID != "client" {
		gone = rows[1]
	}
	s.call("Delete", gone.URN.String())
	wait.Until(t, "the node is gone", func() bool { return !strings.Contains(s.local("list"), "client") })
	onLate := func(args ...string) string {
		t.Helper()
		code, out := s.asAlice("late", args...)
		if code != 0 {
			t.Fatal(out)
		}
		return out
	}
	manifest := filepath.Join(t.TempDir(), "manifest.xml")
	onLate("--api-version", "2", "CreateSliver", request)
	wait.Until(t, "the late nodes are ready", func() bool { return strings.Count(onLate("Status"), "geni_ready") == 2 })
	onLate("-o", manifest, "Describe")
	list, err := logins(readFile(t, manifest))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	late := list[0]
	s.wantOutput("alice", late, "echo late", "late\n")

	s.stop()
	wantTexts(t, s.runOK("restore", "--yes", backup), "late", "The database was restored from that backup.")
	s.start()
	wait.Until(t, "it is known what there is", func() bool {
		return strings.Count(s.runOK("nodes", "--orphans"), "its node takes no new slivers") == 2
	})
	wantTexts(t, s.runOK("nodes"), "drained", "2 orphans: nodes --orphans")
	wait.Until(t, "what was lost is failed", func() bool { return strings.Contains(s.call("Status"), "geni_failed") })
	wantTexts(t, s.call("Status"), "geni_ready", "its provider no longer has it")
	if doors := s.logins(); doors["server"] != kept || doors["client"].port != "" {
		t.Errorf("the doors are %v, want %v alone", doors, kept)
	}
	s.awaitLogin(kept)
	s.wantOutput("alice", kept, "kill -0 $(cat pid) && echo alive", "alive\n")
	s.awaitLogin(late) // nothing has removed it
	code, out := s.asAlice("other", "Allocate", request)
	if code == 0 || !strings.Contains(out, "TOOBIG (6)") || !strings.Contains(out, "in service") {
		t.Errorf("Allocate on a host with orphaned nodes: exit status %d\n%s", code, out)
	}

	// An operator removes the orphans.
	var lost []string
	for line := range strings.Lines(s.runOK("nodes", "--orphans", "--json")) {
		var row site.OrphanRow
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Provider != "local" || !row.Holds || row.Released {
			t.Errorf("%s, %v", line, err)
		}
		lost = append(lost, row.Resource)
	}
	if len(lost) != 2 {
		t.Fatalf("orphans: %v", lost)
	}
	wantTexts(t, s.runOK("release", "--orphans", lost[0], lost[1]), "Removed: "+lost[0], "Removed: "+lost[1])
	if _, err := s.ssh("alice", late, "true"); err == nil {
		t.Error("a node that was removed is open")
	}
	wantTexts(t, s.runOK("nodes", "--orphans"), "Providers have reported no orphans")
	if code, out := s.asAlice("other", "Allocate", request); code != 0 {
		t.Errorf("Allocate of what is free: exit status %d\n%s", code, out)
	}
	s.wantOutput("alice", kept, "kill -0 $(cat pid) && echo alive", "alive\n")

	// The failed sliver is deleted like any other.
	s.call("Delete")
	if code, out := s.asAlice("other", "Delete"); code != 0 {
		t.Error(out)
	}
	wait.Until(t, "all is given back", func() bool {
		return !strings.Contains(s.local("list"), "server") && !strings.Contains(s.runOK("slivers"), "first")
	})
	if has := s.providerNodes("local"); len(has) > 0 {
		t.Errorf("in the end the provider has %v", has)
	}
	s.stop()
	s.local("clean")
	hoststate.Await(t, before, time.Minute)
}
