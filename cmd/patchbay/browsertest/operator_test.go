package browsertest

import (
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/testkit/program"
)

// withFailure makes each node on pc20 fail.
func withFailure(t testing.TB, dir string) {
	program.Edit(t, filepath.Join(dir, "providers", "simulated.yaml"), "\ncomponents: []\n", "\ncomponents: [{name: pc20, behaviour: fail, on: [make]}]\n")
}

func TestWebOperator(t *testing.T) {
	t.Parallel()
	s := newSite(t, withFailure, []string{"user", "alice"})
	s.up("alice", "lab", request("vm:web", "vm:db"), false)
	s.up("alice", "broken", request("raw-pc:bad:pc20"), true)
	s.upAt("alice", "course", request("raw-pc:a:pc3"), 20*time.Hour, 60*time.Hour)
	alice, p := s.member("alice"), s.operator()
	alice.press("lab")
	p.see("Begins within a day Slice Slivers Begin course 1 in 20 h")

	p.see("Failing nodes", "broken/bad", "pc20 could not be installed", "Release it, so that its user can start again.")
	p.press("Drain pc20…")
	p.fillIn("Drain pc20…", "Reason", "the disk of pc20 is broken")
	p.press("Drain")
	p.see("Drained components", "the disk of pc20 is broken", "repair it, then undrain it")
	p.miss("Drain pc20…")
	p.press("Release…")
	p.fillIn("Release…", "Reason", "its disk is broken")
	p.press("Release bad")
	p.miss("broken/bad")
	p.see("Nothing needs you. pc20 is drained.")

	p.press("Plan maintenance…")
	p.fillIn("Plan maintenance…", "Components", "pc2..pc4")
	p.fillIn("Plan maintenance…", "or in", "48h")
	p.fillIn("Plan maintenance…", "or after its beginning", "two hours")
	p.fillIn("Plan maintenance…", "Reason", "new switches")
	p.press("Plan maintenance")
	p.see("Give the beginning and the end each as one time")
	p.fillIn("Plan maintenance…", "or after its beginning", "2h") // the form has kept the rest
	p.press("Plan maintenance")
	p.see("1 sliver reserved in this time", "tick \"over reservations\"")
	p.fillIn("Plan maintenance…", "over reservations", "yes")
	p.press("Plan maintenance")
	p.see("is planned", "Planned maintenance", "new switches")
	visitor := newTab(t, s.at.Pages)
	visitor.open("/")
	visitor.see("new switches")
	p.pressIn("new switches", "Cancel")
	p.see("Cancelled", "No maintenance is planned.")

	p.press("Lock down…")
	p.fillIn("Lock down…", "Reason", "until the power is back")
	p.press("Lock down")
	p.see("New reservations are refused")
	visitor.open("/")
	visitor.see("This site takes no new work", "until the power is back")
	p.press("Lift the lockdown")
	p.see("New reservations are accepted again.")

	p.press("Slices")
	p.fill("Name or URN", "A")
	p.press("Search")
	p.press("lab")
	p.see("2 ready", "alice")
	p.fill("web", "yes")
	p.fill("Reason", "for the class tomorrow")
	p.fill("or from now", "90d")
	p.press("Set the end of ticked")
	p.see("Users of this site can extend until")
	p.fill("longer than users may", "yes") // the form has kept the rest
	p.press("Set the end of ticked")
	p.see("for the class tomorrow")
	address := get[string](p, `document.querySelector("td a[href*=who]").innerText`)
	p.press("Who had an address")
	p.fill("Address", address)
	p.press("Find")
	p.see("urn:publicid:IDN+testbed.example.org+user+alice", "Reserved by")
	p.open("/ui/operator/slices")
	p.press("lab")
	p.press("Release all…")
	p.fillIn("Release all…", "Reason", "the power fails again")
	p.press("Release all")
	p.see("It has no slivers.", "the power fails again")
	alice.see("It ended now: ", "the power fails again")

	p.press("Nodes")
	p.fill("pc20", "yes")
	p.fill("Reason", "a new disk")
	p.press("Undrain ticked")
	p.see("pc20")
	p.press("Members")
	p.press("Sign out alice…")
	p.press("Yes, sign out alice")
	p.see("Signed out: alice")
	alice.see("You are signed out")
	p.press("Journal")
	p.see("locked the site down", "until the power is back", "ended 2 nodes", "the power fails again", "drained")
	p.fill("What", "drained")
	p.press("Search")
	p.see("the disk of pc20 is broken")
	p.miss("the power fails again")
	p.press("Use")
	p.see("node-hours")
}
