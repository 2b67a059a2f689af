package browsertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// setWeb adds settings of the pages to those of a site.
func setWeb(t testing.TB, dir, settings string) {
	t.Helper()
	file := filepath.Join(dir, "patchbay.yaml")
	program.Write(t, file, program.ReadFile(t, file)+"\nweb: {"+settings+"}\n")
}

func TestWebOverTLS(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(t testing.TB, dir string) {
		setWeb(t, dir, "certificate: server-ecdsa.pem, key: server-ecdsa-key.pem")
	}, []string{"user", "alice"})
	p := s.member("alice")
	p.see("You have no experiment.")
	if protocol := get[string](p, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); protocol != "h2" || !strings.HasPrefix(s.at.Pages, "https://") {
		t.Errorf("%s is served by %s, not by HTTP/2", s.at.Pages, protocol)
	}
}

// TestWebServerIsKilled kills the server while a page has an open stream of events.
func TestWebServerIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, []string{"user", "alice"})
	s.up("alice", "lab", request("vm:web"), false)
	p := s.member("alice")
	p.press("lab")
	p.see("1 node: 1 ready")
	get[bool](p, "window.isFirst = true")
	p.expect("net::ERR_")
	s.kill()
	p.see("No connection to the site.")
	setWeb(t, s.dir, "listen: "+strings.TrimPrefix(s.at.Pages, "http://"))
	s.start()
	p.miss("No connection")
	s.patchbay("release", "lab", "--yes", "--reason", "the test goes on")
	p.see("It ended now", "the test goes on")
	if !get[bool](p, "window.isFirst === true") {
		t.Error("the page was loaded again to be live")
	}
}

// TestWebFirstPaint logs how long the page of an experiment of 50 nodes takes to appear, and fails if it is large.
func TestWebFirstPaint(t *testing.T) {
	t.Parallel()
	var nodes []string
	for i := range 50 {
		nodes = append(nodes, fmt.Sprint("vm:node", i))
	}
	s := newSite(t, func(t testing.TB, dir string) {
		program.RemoveSimulatedDelays(t, dir)
		program.Edit(t, filepath.Join(dir, "inventory.yaml"), "vm1..vm4", "vm1..vm8")
	}, []string{"user", "alice"})
	s.up("alice", "large", request(nodes...), false)
	p := s.member("alice")
	p.press("large")
	p.see("50 nodes: 50 ready")
	p.open("/ui/mine") // now style and script are in the cache
	for range 3 {
		p.press("large")
		p.see("50 nodes: 50 ready")
		paint := get[float64](p, `await firstPaint()`)
		size := get[int](p, `performance.getEntriesByType("navigation")[0].encodedBodySize`)
		whole := get[int](p, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
		t.Logf("50 nodes: first paint after %.0f ms, %d bytes, compressed %d", paint, whole, size)
		if whole > 100_000 {
			t.Errorf("the page of 50 nodes has %d bytes, and must have at most 100 kB", whole)
		}
		p.press("Mine")
	}
}
