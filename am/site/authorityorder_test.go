package site

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/authority"
	"patchbay/am/site/operate"
)

// TestAuthorityOrders sends orders to the authority of a site that is served, and of one that is not.
func TestAuthorityOrders(t *testing.T) {
	for name, isServed := range map[string]bool{"served": true, "unserved": false} {
		c, err := ReadConfig(filepath.Join(made(t), ConfigName))
		if err != nil {
			t.Fatal(err)
		}
		sent := &bytes.Buffer{}
		if isServed {
			state, err := c.OpenAuthority()
			if err != nil {
				t.Fatal(err)
			}
			serveAuthority(t, c, &authorityEndpoints{
				config: c, now: time.Now, served: state, operators: state, pagesURL: func() string { return "https://pages.example.org" },
				record: func(operate.Note) error { return nil },
			}, sent)
			t.Cleanup(func() { state.Close() })
		}
		a, err := ConnectAuthority(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		u, err := a.UserWithKeys("alice", nil, time.Now())
		if err != nil || len(u.Key) == 0 || len(u.SSHKey) == 0 {
			t.Fatalf("%s: a user: %v", name, err)
		}
		if strings.Contains(sent.String(), "PRIVATE") {
			t.Errorf("%s: a private key was sent", name)
		}
		s, err := a.Slice("first", "alice", time.Now().Add(time.Hour))
		if err != nil || !strings.Contains(string(s.Credential), "<credential") {
			t.Errorf("%s: a slice: %+v, %v", name, s, err)
		}
		if has, err := a.HasSlice("first"); !has || err != nil {
			t.Errorf("%s: the slice is missing: %v", name, err)
		}
		if isNew, err := a.AddProject("course", "alice"); !isNew || err != nil {
			t.Errorf("%s: a project: %v", name, err)
		}
		if n, err := a.AddMembers("course", []string{"alice"}, authority.PlainMember); n != 0 || err != nil {
			t.Errorf("%s: %d members added twice: %v", name, n, err)
		}
		if isSet, err := a.SetRequest("course", bytes.Repeat([]byte("x"), 1<<20)); !isSet || err != nil {
			t.Errorf("%s: the largest request: %t, %v", name, isSet, err)
		}
		testLinks(t, name, a, isServed)
		for what, err := range map[string]error{
			"a role that does not exist": a.SetRole("first", "alice", "OWNER"), "an unknown member": a.Remove("bob"), "the last LEAD": a.SetRole("first", "alice", ""),
			"an unknown project": a.RemoveProject("none"),
		} {
			if err == nil || strings.Contains(err.Error(), "served") {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if list, err := a.Members(false); err != nil || len(list) != 1 || list[0].URN.Name != "alice" || list[0].Slices != 1 {
			t.Errorf("%s: the members are %+v, %v", name, list, err)
		}
		if list, err := a.Slices(); err != nil || len(list) != 1 || list[0].Members[0].Role != authority.Lead {
			t.Errorf("%s: the slices are %+v, %v", name, list, err)
		}
		var backup bytes.Buffer
		if err := BackUpAuthority(t.Context(), c, &backup); err != nil || !strings.Contains(backup.String(), "alice") {
			t.Errorf("%s: a backup of %d bytes: %v", name, backup.Len(), err)
		}
	}
}

// testLinks: only a served site makes links, since its server has the pages.
func testLinks(t *testing.T, name string, a *AuthorityClient, isServed bool) {
	t.Helper()
	member, err := a.Link("alice", time.Hour)
	operator, operatorErr := a.admin.OperatorLink(t.Context())
	if !isServed {
		if !errors.Is(err, ErrNotServed) || !errors.Is(operatorErr, ErrNotServed) {
			t.Errorf("%s: links of a member and an operator: %v, %v", name, err, operatorErr)
		}
	} else if prefix := "https://pages.example.org" + authority.SignInPath; err != nil || operatorErr != nil ||
		!strings.HasPrefix(member.URL, prefix) || !strings.HasPrefix(operator.URL, prefix) || time.Until(member.Ends) < 50*time.Minute || time.Until(operator.Ends) > 20*time.Minute {
		t.Errorf("%s: links: %+v, %v; %+v, %v", name, member, err, operator, operatorErr)
	}
	if second, err := a.Link("alice", time.Hour); isServed && (err != nil || second.URL != "") {
		t.Errorf("%s: a link in place of one that has not expired: %v, %v", name, second, err)
	}
	if n, err := a.SignOut("alice"); n != 0 || err != nil {
		t.Errorf("%s: %d sessions of alice ended: %v", name, n, err)
	}
	if _, err := a.admin.SignOutOperators(t.Context()); (err == nil) != isServed {
		t.Errorf("%s: operators signed out: %v", name, err)
	}
}

// TestAuthorityOrdersWithoutAnswer checks that the errors name the list with the result, since the
// journal does not have it.
func TestAuthorityOrdersWithoutAnswer(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	l, err := listenSocket(socketPath(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	a, err := ConnectAuthority(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, unknownProject := a.AddProject("course", "alice")
	for list, err := range map[string]error{"members": a.Remove("alice"), "slices": a.SetRole("first", "alice", authority.Lead), "projects": unknownProject} {
		if err == nil || !strings.Contains(err.Error(), "before you repeat it, check with: patchbay authority "+list+" --config ") {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// TestAnOrderIsSentToOneSite has a server that reads no large order to its end. The command must not carry
// it out itself then, since the server runs.
func TestAnOrderIsSentToOneSite(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	l, err := listenSocket(socketPath(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnprocessableEntity) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	for range 5 { // the answer, or the closed connection, comes first
		served, err := Connect(c).Order(t.Context(), authorityPath+"remove", authorityOrder{Name: "alice", SSHKeys: make([]byte, 1<<20)}, new(authorityResult))
		if !served || err == nil {
			t.Fatalf("served: %t, %v", served, err)
		}
	}
}

// serveAuthority serves only the authority at the admin socket, and copies the answers to sent.
func serveAuthority(t *testing.T, c *Config, e *authorityEndpoints, sent *bytes.Buffer) {
	mux := http.NewServeMux()
	for pattern, h := range e.handlers() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			sent.Write(answer.Body.Bytes())
			w.WriteHeader(answer.Code)
			w.Write(answer.Body.Bytes())
		})
	}
	l, err := listenSocket(socketPath(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: mux}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
}
