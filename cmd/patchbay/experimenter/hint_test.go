package experimenter

import (
	"errors"
	"strings"
	"testing"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client/session"
)

func TestMethodHints(t *testing.T) {
	for _, c := range []struct {
		api          int
		method, says string
	}{
		{3, "Status", ""},
		{3, "status", "; did you mean Status?"},
		{3, "Statsu", "; did you mean Status?"},
		{3, "createsliver", "; did you mean CreateSliver, with --api-version 2?"},
		{2, "Provision", "; give --api-version 3"},
		{3, "Cancel", ""},
	} {
		if got := methodHint(c.api, c.method); got != c.says {
			t.Errorf("%s of version %d: %q, want %q", c.method, c.api, got, c.says)
		}
	}
}

func TestOptionWarnings(t *testing.T) {
	for _, c := range []struct {
		api                  int
		method, option, says string
	}{
		{3, "ListResources", "geni_available=true", ""},
		{3, "ListResources", "geni_avalable=true", "warning  ListResources has no option geni_avalable; did you mean geni_available?"},
		{3, "ListResources", "gni_available=true", "warning  ListResources has no option gni_available; did you mean geni_available?"},
		{3, "Status", "geni_users=[]", "warning  Status has no option geni_users"},
		{2, "ListResources", "geni_slice_urn=x", ""},
		{3, "Status", "geni_speaking_for=x", ""},
		{3, "Status", "sfa_something=1", ""},
		{3, "Cancel", "geni_else=1", ""},
	} {
		r := callRequest{api: c.api, method: c.method, options: []string{c.option}}
		if got := strings.Join(r.optionWarnings(), "\n"); got != c.says {
			t.Errorf("%s %s: %q, want %q", c.method, c.option, got, c.says)
		}
	}
}

func TestFailedCallsNameTheRemedy(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		rule string
		err  error
		o    callOptions
		me   session.Caller
		want string
	}{
		{"method misspelt", &xmlrpc.Fault{}, callOptions{API: 3, method: "Statsu"}, session.Caller{}, "did you mean Status?"},
		{"nobody", refused, callOptions{}, session.Caller{}, "refused; no --user was given"},
		{"files without certificate", refused, callOptions{Users: []string{"x"}}, session.Caller{}, "has no certificate"},
		{"nothing", refused, callOptions{Users: []string{"x"}}, session.Caller{CertFile: "x"}, "refused"},
	} {
		if got := c.o.explain(c.err, &c.me); !errors.Is(got, c.err) || !strings.HasSuffix(got.Error(), c.want) && !strings.Contains(got.Error(), c.want+":") {
			t.Errorf("%s: %v, want %q", c.rule, got, c.want)
		}
	}
}
