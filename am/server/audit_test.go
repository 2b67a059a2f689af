package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/follow/audit"
	"patchbay/am/server"
	"patchbay/am/urn"
)

// before is a response that records whether anything was sent before the audit line.
type before struct {
	*httptest.ResponseRecorder
	sent bool
}

func (w *before) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseRecorder.Write(b)
}

// TestAuditComesBeforeTheAnswer checks that the audit gets exactly the calls that may have changed
// something, before their answers are sent.
func TestAuditComesBeforeTheAnswer(t *testing.T) {
	alice := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	slice := urn.MustParse("urn:publicid:IDN+example.org+slice+s")
	for _, c := range []struct {
		rule  string
		event api.Event
		panic bool
		want  *audit.Call
	}{
		{"a call that changes", api.Event{Changes: true, Method: "Allocate", Caller: alice, Slice: slice, Slivers: 2, Credentials: []string{"f00d"}, Output: "x"}, false,
			&audit.Call{Method: "Allocate", Caller: alice, Slice: slice, Slivers: 2, Credentials: []string{"f00d"}, Output: "x"}},
		{"one that is refused", api.Event{Changes: true, Method: "Renew", Caller: alice, Code: am.Refused, Detail: am.OutOfRange, Err: errors.New("secret")}, false,
			&audit.Call{Method: "Renew", Caller: alice, Code: int(am.Refused), Detail: am.OutOfRange}},
		{"a fault", api.Event{Changes: true, Method: "Delete", Fault: true, Output: "no", Err: &xmlrpc.Fault{Code: xmlrpc.FaultParams, Text: "no"}}, false,
			&audit.Call{Method: "Delete", Fault: true, Code: xmlrpc.FaultParams, Output: "no"}},
		{"a panic", api.Event{}, true, &audit.Call{Code: int(am.ServerError), Output: "internal error; the operator finds it in the log as "}},
		{"a call that only looks", api.Event{Method: "Status", Caller: alice, Slice: slice}, false, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := &before{ResponseRecorder: httptest.NewRecorder()}
			var got *audit.Call
			s := server.New(server.Config{}, server.Options{
				API: double{func(context.Context, int, api.Request) api.Response {
					if c.panic {
						panic("secret")
					}
					return api.Response{Body: []byte("answer"), Event: c.event}
				}},
				Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
				Audit: func(x audit.Call) {
					if got != nil || w.sent {
						t.Error("it was handed over twice, or after the answer")
					}
					got = &x
				},
			})
			s.ServeHTTP(w, httptest.NewRequest("POST", "/am/3.0", strings.NewReader("call")))
			if !w.sent {
				t.Error("no answer was sent")
			}
			if c.want != nil {
				c.want.API, c.want.ID, c.want.Remote = 3, w.Header().Get("X-Request-Id"), "192.0.2.1:1234"
				if c.want.Caller.IsZero() {
					c.want.From, c.want.Times = "192.0.2.1/32", 1
				}
				if c.panic {
					c.want.Output += c.want.ID
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the audit gets (-want +got):\n%s", diff)
			}
		})
	}
}
