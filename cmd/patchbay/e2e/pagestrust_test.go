package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// hostileRequest has texts that would be markup, if a page did not escape them.
const hostileRequest = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><!-- --><node client_id="&lt;script&gt;alert(1)&lt;/script&gt;" exclusive="false"><sliver_type name="vm"/>` +
	`<services><execute shell="sh" command="echo '&lt;img src=x onerror=alert(2)&gt;'"/></services><x:a xmlns:x="http://example.org/x">&lt;/textarea&gt;&lt;script&gt;alert(3)&lt;/script&gt;</x:a></node></rspec>`

// newPagesSite serves a site with members alice and bob.
func newPagesSite(t testing.TB) *servedSite {
	t.Helper()
	s := newServedSite(t, "lab.example.org", nil, nil)
	s.appendSettings(instantNodes)
	for _, name := range []string{"alice", "bob"} {
		if code, out := program.Run(t, "user", name, "--config", s.dir); code != 0 {
			t.Fatal(out)
		}
	}
	s.start()
	return s
}

// start begins an experiment with a request, and returns its page.
func (v *visitor) start(name, request string) string {
	v.t.Helper()
	a := v.post("/ui/start", "name", name, "project", "-", "text", request, "life", "1h", "do", "start")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/ui/experiment/") {
		v.t.Fatalf("start: %d %s %s", a.status, a.header.Get("Location"), a.text)
	}
	return a.header.Get("Location")
}

// TestPagesWithstandAttacks has attacks by class, each with a neighbour that is accepted.
func TestPagesWithstandAttacks(t *testing.T) {
	t.Parallel()
	s := newPagesSite(t)
	alice, bob, nobody := s.signIn("user", "alice", "--link"), s.signIn("user", "bob", "--link"), s.visit()
	operator := s.signIn("web", "--operator", "--print")
	page := alice.start("first", program.SmallRequest)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	post := func(v *visitor, path string, headers ...string) func() webAnswer {
		return func() webAnswer {
			return v.send("POST", path, strings.NewReader("key="), append(form, headers...)...)
		}
	}
	get := func(v *visitor, path string, headers ...string) func() webAnswer {
		return func() webAnswer { return v.send("GET", path, nil, headers...) }
	}
	for _, c := range []struct {
		rule         string
		attack       func() webAnswer
		refused      int
		neighbour    func() webAnswer
		accepted     int
		acceptedText string
	}{
		{"a form of another site", post(alice, page+"/end", "Origin", "https://evil.example.org"), 403, post(alice, "/ui/mine/nothing", "Origin", s.pages), 404, ""},
		{"a form of another site, old header", post(alice, page+"/end", "Sec-Fetch-Site", "cross-site"), 403, post(alice, "/ui/mine/nothing", "Sec-Fetch-Site", "same-origin"), 404, ""},
		{"a form of another site of the same domain", post(alice, page+"/end", "Sec-Fetch-Site", "same-site"), 403, get(alice, page), 200, "first"},
		{"another name of the host", get(alice, "/ui/mine", "Host", "evil.example.org"), 421, get(alice, "/ui/mine"), 200, "first"},
		{"another port of the host", get(alice, "/ui/mine", "Host", "127.0.0.1:1"), 421, get(nobody, "/ui/"), 200, "Free now"},
		{"nobody at a member's page", get(nobody, "/ui/mine"), 303, get(bob, "/ui/mine"), 200, ""},
		{"nobody's form", post(nobody, page+"/end"), 401, get(alice, page), 200, "first"},
		{"another member's experiment", get(bob, page), 404, get(alice, page), 200, "first"},
		{"another member's manifest", get(bob, page+"/manifest"), 404, get(alice, page+"/manifest"), 200, "<rspec"},
		{"another member's events", get(bob, page+"/events"), 404, get(alice, "/ui/start"), 200, ""},
		{"an end of another member's experiment", post(bob, page+"/end"), 404, get(alice, page), 200, "first"},
		{"an experiment that does not exist answers alike", get(bob, "/ui/experiment/-/nothing"), 404, get(alice, page), 200, ""},
		{"a member at the operators' pages", get(alice, "/ui/operator/"), 404, get(operator, "/ui/operator/"), 200, ""},
		{"a member's order as an operator", post(alice, "/ui/operator/maintenance"), 404, get(operator, "/ui/operator/slices"), 200, "first"},
		{"a member who looks for an address", get(alice, "/ui/operator/who?address=192.0.2.1"), 404, get(operator, "/ui/operator/who?address=192.0.2.1"), 200, "192.0.2.1"},
		{"an operator at a member's page", get(operator, page), 404, get(operator, "/ui/operator/nodes"), 200, ""},
		{"a link that nobody has made", func() webAnswer { return nobody.post("/ui/sign-in", "link", strings.Repeat("A", 43)) }, 403, get(nobody, "/ui/sign-in"), 200, "link"},
		{"a huge form", func() webAnswer { return alice.post("/ui/start", "text", strings.Repeat("x", 2<<20)) }, 413, get(alice, page), 200, ""},
		{"a path out of the style's folder", get(nobody, "/ui/static/..%2fweb.go"), 404, get(nobody, "/ui/static/style.css"), 200, ""},
	} {
		if a := c.attack(); a.status != c.refused {
			t.Errorf("%s: %d, want %d: %.300s", c.rule, a.status, c.refused, a.text)
		}
		if a := c.neighbour(); a.status != c.accepted || !strings.Contains(a.text, c.acceptedText) {
			t.Errorf("%s: the neighbour gets %d, want %d with %q: %.300s", c.rule, a.status, c.accepted, c.acceptedText, a.text)
		}
	}
	for _, path := range []string{"/ui/", "/ui/mine", page, "/ui/nothing", "/free.json"} {
		h := alice.get(path).header
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy: %s", path, policy)
		}
		if h.Get("Referrer-Policy") != "no-referrer" || path != "/ui/" && path != "/free.json" && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestPagesEscapeTexts checks texts of a request that would be markup, in the pages of members and operators.
func TestPagesEscapeTexts(t *testing.T) {
	t.Parallel()
	s := newPagesSite(t)
	alice, operator := s.signIn("user", "alice", "--link"), s.signIn("web", "--operator", "--print")
	page := alice.start("hostile", hostileRequest)
	slice := "/ui/operator/slice?urn=urn:publicid:IDN%2Blab.example.org%2Bslice%2Bhostile"
	for _, c := range []struct {
		who   *visitor
		pages []string
	}{{alice, []string{page, "/ui/mine"}}, {operator, []string{"/ui/operator/", "/ui/operator/slices", "/ui/operator/nodes", slice}}} {
		for _, path := range c.pages {
			a := c.who.get(path)
			if a.status != 200 || strings.Contains(a.text, "<script>alert") || strings.Contains(a.text, "<img src=x") {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
		}
	}
	if a := alice.get(page + "/manifest"); !strings.Contains(a.text, "alert(3)") || strings.Contains(a.header.Get("Content-Type"), "html") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the manifest: %v %s", a.header, a.text)
	}
	check := alice.post("/ui/start/check", "text", hostileRequest)
	if strings.Contains(check.text, "<script>") || strings.Contains(check.text, "<img") {
		t.Errorf("the check: %s", check.text)
	}
}

// TestPagesSessions checks which links and sessions count.
func TestPagesSessions(t *testing.T) {
	t.Parallel()
	s := newPagesSite(t)
	run := func(args ...string) string {
		t.Helper()
		code, out := program.Run(t, append(args, "--config", s.dir)...)
		if code != 0 {
			t.Fatal(out)
		}
		return out
	}
	first := linkOf(t, run("user", "alice", "--link"))
	second := linkOf(t, run("user", "alice", "--link"))
	v := s.visit()
	if a := v.post("/ui/sign-in", "link", first); a.status != http.StatusForbidden {
		t.Errorf("a link that a later one has replaced: %d", a.status)
	}
	for range 2 { // looking does not use a link
		if a := v.get("/ui/sign-in/" + second); a.status != 200 || !strings.Contains(a.text, "Sign in as alice") {
			t.Errorf("the page of a link: %d %s", a.status, a.text)
		}
	}
	chosen := "chosen-by-the-attacker-chosen-by-the-attacker-0"
	a := v.send("POST", "/ui/sign-in", strings.NewReader("link="+second), "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Cookie", cookieName(s)+"="+chosen)
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusSeeOther || strings.Contains(cookie, chosen) || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Errorf("sign-in: %d %s", a.status, cookie)
	}
	if a := s.visit().post("/ui/sign-in", "link", second); a.status != http.StatusForbidden || !strings.Contains(a.text, "used") {
		t.Errorf("a used link: %d %s", a.status, a.text)
	}
	fixed := s.visit()
	if a := fixed.send("GET", "/ui/mine", nil, "Cookie", cookieName(s)+"="+chosen); a.status != http.StatusSeeOther {
		t.Errorf("a session that somebody has chosen: %d", a.status)
	}
	if a := v.get("/ui/mine"); a.status != 200 {
		t.Fatalf("signed in: %d", a.status)
	}
	page := v.start("first", program.SmallRequest)

	other := s.signIn("user", "alice", "--link")
	streams := []*bufio.Reader{v.stream(page + "/events"), other.stream(page + "/events")}
	other.post("/ui/sign-out")
	if a := other.get("/ui/mine"); a.status != http.StatusSeeOther {
		t.Errorf("after sign-out: %d", a.status)
	}
	awaitEnd(t, streams[1])
	own := linkOf(t, v.post("/ui/mine/link").text)
	if a := s.visit().post("/ui/sign-in", "link", own); a.status != http.StatusSeeOther {
		t.Errorf("a link of one's own: %d %s", a.status, a.text)
	}
	own = linkOf(t, v.post("/ui/mine/link").text)
	run("user", "alice", "--sign-out")
	if a := s.visit().post("/ui/sign-in", "link", own); a.status != http.StatusForbidden {
		t.Errorf("a link of one's own after an operator's sign-out: %d", a.status)
	}
	if a := v.get("/ui/mine"); a.status != http.StatusSeeOther {
		t.Errorf("after an operator's sign-out: %d", a.status)
	}
	awaitEnd(t, streams[0])
	again := s.signIn("user", "alice", "--link")
	stream := again.stream(page + "/events")
	run("authority", "remove", "alice")
	if a := again.get("/ui/mine"); a.status != http.StatusSeeOther {
		t.Errorf("a removed member: %d", a.status)
	}
	awaitEnd(t, stream)
	// A member on the deny list keeps the session, and may do nothing with it.
	bob := s.signIn("user", "bob", "--link")
	bob.start("second", program.SmallRequest)
	program.Write(t, filepath.Join(s.dir, "trusted", "denied"), "urn:publicid:IDN+lab.example.org+user+bob\n")
	wait.Until(t, "bob is refused", func() bool { return bob.get("/ui/experiment/-/second").status != 200 })
}

func cookieName(s *servedSite) string {
	return "patchbay-" + s.pages[strings.LastIndex(s.pages, ":")+1:]
}

// stream opens an event stream, which ends with the test.
func (v *visitor) stream(path string) *bufio.Reader {
	v.t.Helper()
	resp, err := v.client.Get(v.site.pages + path)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		v.t.Fatalf("%s: %s", path, resp.Status)
	}
	return bufio.NewReader(resp.Body)
}

// awaitEnd reads a stream to its end, which must come within 10 s.
func awaitEnd(t *testing.T, r *bufio.Reader) {
	t.Helper()
	begin := time.Now()
	for {
		if _, err := r.ReadString('\n'); err != nil {
			break
		}
	}
	if d := time.Since(begin); d > wait.Limit(t) {
		t.Errorf("the stream ended after %s", d)
	}
}

// TestPagesStreamsAreLimited checks that a member has at most four open streams, and that others are not disturbed.
func TestPagesStreamsAreLimited(t *testing.T) {
	t.Parallel()
	s := newPagesSite(t)
	alice, bob := s.signIn("user", "alice", "--link"), s.signIn("user", "bob", "--link")
	page, his := alice.start("first", program.SmallRequest), bob.start("second", program.SmallRequest)
	for range 4 {
		alice.stream(page + "/events")
	}
	if a := alice.get(page + "/events"); a.status != http.StatusServiceUnavailable {
		t.Errorf("the fifth stream: %d", a.status)
	}
	line, err := bob.stream(his + "/events").ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "retry:") {
		t.Errorf("another member's stream: %q %v", line, err)
	}
	if a := alice.get(page); a.status != 200 {
		t.Errorf("a page beside the streams: %d", a.status)
	}
}

// TestPagesOfKilledServer checks that a stream continues after the server was killed, and misses no change.
func TestPagesOfKilledServer(t *testing.T) {
	t.Parallel()
	s := newPagesSite(t)
	port := freePorts(t)
	s.kill()
	program.Edit(t, filepath.Join(s.dir, "patchbay.yaml"), "listen: ", "web: {listen: \"127.0.0.1:"+fmt.Sprint(port)+"\"}\nlisten: ")
	s.start()
	alice := s.signIn("user", "alice", "--link")
	page := alice.start("first", program.SmallRequest)
	r := alice.stream(page + "/events?since=0")
	id := ""
	for id == "" {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		id, _ = strings.CutPrefix(strings.TrimSpace(line), "id: ")
		if !strings.HasPrefix(line, "id: ") {
			id = ""
		}
	}
	s.kill()
	s.start()
	if a := alice.get(page); a.status != 200 || !strings.Contains(a.text, "first") {
		t.Fatalf("the session after a kill: %d", a.status)
	}
	if a := alice.post(page + "/end"); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.text)
	}
	resp, err := alice.client.Do(func() *http.Request {
		q, _ := http.NewRequest("GET", s.pages+page+"/events", nil)
		q.Header.Set("Last-Event-ID", id)
		return q
	}())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	for events.Scan() {
		if strings.HasPrefix(events.Text(), "id: ") && events.Text() != "id: "+id {
			return
		}
	}
	t.Errorf("the stream after the kill has no event: %v", events.Err())
}
