package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/audit"
	"patchbay/am/testkit/wait"
)

// acts counts the lines of a site's audit that tell of an act by an operator.
func acts(t testing.TB, dir, what, operator string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "audit.log"))) {
		if strings.Contains(line, fmt.Sprintf(`"what":%q`, what)) && strings.Contains(line, fmt.Sprintf(`"operator":%q`, operator)) {
			n++
		}
	}
	return n
}

// leave gives an order and does not wait for the answer.
func leave(t testing.TB, dir, what, order string) {
	t.Helper()
	short, done, err := shortPath(filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	conn, err := net.Dial("unix", short)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nHost: site\r\nContent-Length: %d\r\n\r\n%s", what, len(order), order); err != nil {
		t.Fatal(err)
	}
}

// TestAuditTellsOfOrdersWhoseGiversLeave holds that a served site itself writes who
// had it reload, or believe a clock, once: whoever gave the order may be gone.
func TestAuditTellsOfOrdersWhoseGiversLeave(t *testing.T) {
	dir := made(t)
	ahead(t, dir, time.Hour)
	s := serve(t, dir)
	want := func(what, operator string, n int) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("the audit has %d of %s by %s", n, what, operator), func() bool { return acts(t, dir, what, operator) >= n })
	}
	leave(t, dir, "/reload", `{"operator":"ann"}`)
	want("reload", "ann", 1)
	leave(t, dir, "/clock", `{"operator":"ann"}`)
	want(clockBelieved, "ann", 1)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	want("reload", hangup, 1)
	if code, out := tell(t, "reload", "--config", dir); code != 0 {
		t.Error(out)
	}
	if n := acts(t, dir, "reload", audit.Operator()); n != 1 {
		t.Errorf("one reload by command is told %d times", n)
	}
	if code, out := tell(t, "clock", "--believe", "--config", dir); code != 0 {
		t.Error(out)
	}
	if n := acts(t, dir, clockBelieved, audit.Operator()); n != 0 {
		t.Errorf("what was believed already is told %d times", n)
	}
	s.stop()
}

func TestOrderSaysWhoGivesIt(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nobody":             {`{}`, "does not say who"},
		"an empty name":      {`{"operator":""}`, "does not say who"},
		"a long name":        {`{"operator":"` + strings.Repeat("x", maxOperator+1) + `"}`, "is longer than 100 bytes"},
		"several lines":      {`{"operator":"ann\nbob"}`, "control characters"},
		"no JSON":            {`ann`, "cannot be read"},
		"nothing":            {``, "cannot be read"},
		"an unknown key":     {`{"operator":"ann","force":true}`, `unknown field "force"`},
		"two names":          {`{"operator":"ann","Operator":"bob"}`, "twice"},
		"a second order":     {`{"operator":"ann"}{"operator":"bob"}`, "something follows"},
		"more than is right": {`{"operator":"` + strings.Repeat("x", maxSiteOrder) + `"}`, "cannot be read"},
		"ann":                {`{"operator":"ann"}`, ""},
	} {
		w := httptest.NewRecorder()
		o, ok := readOrder(w, httptest.NewRequest(http.MethodPost, "/reload", strings.NewReader(c.body)))
		switch {
		case c.want == "":
			if !ok || o.Operator != "ann" {
				t.Errorf("%s: %v %+v: %s", name, ok, o, w.Body)
			}
		case ok || (w.Code == http.StatusBadRequest) != strings.HasPrefix(w.Body.String(), "the order cannot be read") || w.Code >= 500 || !strings.Contains(w.Body.String(), c.want):
			t.Errorf("%s: %v %d %s", name, ok, w.Code, w.Body)
		}
	}
}

// TestReloadWaitsForNoPipe holds that a pipe to which nobody writes keeps neither a
// reload, nor those that follow, nor the stop.
func TestReloadWaitsForNoPipe(t *testing.T) {
	for _, name := range []string{"inventory.yaml", configName, "providers/simulated.yaml"} {
		t.Run(name, func(t *testing.T) {
			dir := made(t)
			s := serve(t, dir)
			file := filepath.Join(dir, name)
			if name == "providers/simulated.yaml" { // one that is open is not read again
				file = filepath.Join(dir, "providers", "other.yaml")
				script := readFile(t, filepath.Join(dir, "providers", "simulated.prov"))
				if err := os.WriteFile(filepath.Join(dir, "providers", "other.prov"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
				edit(t, filepath.Join(dir, "inventory.yaml"), "names: pc1..pc12", "names: pc1..pc12\n    provider: other")
			} else if err := os.Rename(file, file+".away"); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "a reload is refused", func() bool {
				var r reloadReport
				err := tellSite(t.Context(), &Config{origin: origin{file: filepath.Join(dir, configName)}}, "/reload", siteOrder{"ann"}, &r)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(strings.Join(r.Wrong, "\n"), "is not a regular file")
			})
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "a signal is heeded", func() bool { return strings.Count(s.out.String(), "is not a regular file") >= 2 })
			if code := s.stop(); code != 0 {
				t.Errorf("stopped with %d", code)
			}
		})
	}
}

// TestStopWaitsForNoReload holds that a site stops while a reload is stuck.
func TestStopWaitsForNoReload(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), configName))
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	s, err := openSite(t.Context(), c, c.Log.newLog(&out))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	go func() { ended <- s.run(ctx, hup) }()
	wait.Until(t, "it serves", s.working.Load)
	s.reloading.Lock()
	defer s.reloading.Unlock()
	wait.Until(t, "the signal is heeded", func() bool {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(out.String(), "the audit was opened again")
	})
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not stop")
	}
}
