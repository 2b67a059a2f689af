package main

import (
	"errors"
	"strings"
	"testing"

	"patchbay/am/xmlrpc"
)

func TestSuggestionsNameExistingFiles(t *testing.T) {
	for _, c := range []struct {
		want string
		have []string
		says string
	}{
		{"frist", []string{"first", "second"}, "did you mean first? Or "},
		{"First", []string{"first"}, "did you mean first? Or "},
		{"nosuch", []string{"first", "second"}, "there are first, second; or "},
		{"nosuch", []string{"first"}, "there is only first; or "},
		{"nosuch", nil, ""},
		{"zzzzzz", strings.Split("abcdefghijkl", ""), "there are a, b, c, d, e, f, g, h, i, j and 2 more; or "},
	} {
		if got := suggestNames(c.want, c.have); got != c.says {
			t.Errorf("%s of %v: %q, want %q", c.want, c.have, got, c.says)
		}
	}
}

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
		me   caller
		want string
	}{
		{"method misspelt", &xmlrpc.Fault{}, callOptions{API: 3, method: "Statsu"}, caller{}, "did you mean Status?"},
		{"nobody", refused, callOptions{}, caller{}, "refused; no --user was given"},
		{"files without certificate", refused, callOptions{Users: []string{"x"}}, caller{}, "has no certificate"},
		{"nothing", refused, callOptions{Users: []string{"x"}}, caller{certFile: "x"}, "refused"},
	} {
		if got := c.o.explain(c.err, &c.me); !errors.Is(got, c.err) || !strings.HasSuffix(got.Error(), c.want) && !strings.Contains(got.Error(), c.want+":") {
			t.Errorf("%s: %v, want %q", c.rule, got, c.want)
		}
	}
}
