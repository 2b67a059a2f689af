package site

import (
	"context"
	"errors"
	"io"
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

	"patchbay/am/testkit/wait"
)

func TestOrdersNameTheirOperator(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nobody":             {`{}`, "no operator's name"},
		"an empty name":      {`{"operator":""}`, "no operator's name"},
		"a long name":        {`{"operator":"` + strings.Repeat("x", 101) + `"}`, "is longer than 100 bytes"},
		"several lines":      {`{"operator":"alice\nbob"}`, "control characters"},
		"no JSON":            {`alice`, "cannot be read"},
		"nothing":            {``, "cannot be read"},
		"an unknown key":     {`{"operator":"alice","force":true}`, `unknown field "force"`},
		"two names":          {`{"operator":"alice","Operator":"bob"}`, "twice"},
		"a second order":     {`{"operator":"alice"}{"operator":"bob"}`, "there is text after it"},
		"more than is right": {`{"operator":"` + strings.Repeat("x", maxSiteOrder) + `"}`, "cannot be read"},
		"alice":              {`{"operator":"alice"}`, ""},
	} {
		w := httptest.NewRecorder()
		o, ok := readOrder(w, httptest.NewRequest(http.MethodPost, "/reload", strings.NewReader(c.body)))
		switch {
		case c.want == "":
			if !ok || o.Operator != "alice" {
				t.Errorf("%s: %v %+v: %s", name, ok, o, w.Body)
			}
		case ok || (w.Code == http.StatusBadRequest) != strings.HasPrefix(w.Body.String(), "the order cannot be read") || w.Code >= 500 || !strings.Contains(w.Body.String(), c.want):
			t.Errorf("%s: %v %d %s", name, ok, w.Code, w.Body)
		}
	}
}

// TestStopWaitsForNoReload checks that a site stops while a reload is stuck.
func TestStopWaitsForNoReload(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	var out wait.Buffer
	s, err := Open(t.Context(), c, c.Log.New(&out))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // without signal.Stop, because a late signal would then end all tests
	go func() { ended <- s.Run(ctx, hup) }()
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

func TestMissingAnswersAreExplained(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "it has not answered within 30s"},
		{t.Context(), io.ErrUnexpectedEOF, "it ended before it answered"},
		{t.Context(), &net.OpError{Op: "read", Err: syscall.ECONNRESET}, "it ended before it answered"},
		{t.Context(), errors.New("odd"), "odd"},
		{gone, net.ErrClosed, "the command ended before the answer"},
	} {
		if got := noAnswerReason(tt.ctx, tt.err).Error(); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
	if got := askError(t.Context(), "admin.sock", syscall.EACCES).Error(); !strings.Contains(got, "run the command as the site's user, or as root") {
		t.Error(got)
	}
}

// FuzzOrdersOfTheSite reads any body as a command. An accepted one is a single object with an operator.
func FuzzOrdersOfTheSite(f *testing.F) {
	f.Add(`{"operator":"alice"}`)
	f.Add(`{"operator":"alice"} x`)
	f.Add(`{"operator":"alice","Operator":"bob"}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, more := range []string{"", "{}", "x"} {
			w := &discarded{header: http.Header{}}
			r, err := http.NewRequest("POST", "/reload", strings.NewReader(body+more))
			if err != nil {
				t.Fatal(err)
			}
			o, ok := readOrder(w, r)
			if ok != (w.status == 0) || ok && (o.Operator == "" || more != "") || !ok && w.status != 400 && w.status != 422 {
				t.Errorf("%q: %v %+v, %d", body+more, ok, o, w.status)
			}
		}
	})
}

// discarded is an answer of which only the status counts.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header { return d.header }

func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

func (d *discarded) WriteHeader(status int) { d.status = status }
