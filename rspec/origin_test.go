package rspec

import (
	"strings"
	"testing"
)

func TestOriginOfNodes(t *testing.T) {
	for _, tt := range []struct {
		rule, in string
		want     Origin
		remark   string
	}{
		{"none", ``, Origin{}, ""},
		{"all of it", `<o:source language="radl" id="front end" ordinal="3"/>`, Origin{"radl", "front end", 3}, ""},
		{"the ordinal is 0 by default", `<o:source language=" blueprint " id="db"/>`, Origin{"blueprint", "db", 0}, ""},
		{"features beside it", `<o:feature name="tag" value="x"/><o:source language="radl" id="a"/><o:notice>late</o:notice>`, Origin{"radl", "a", 0}, ""},
		{"the first of several", `<o:source language="radl" id="a"/><o:source language="radl" id="b"/>`, Origin{"radl", "a", 0}, "has several sources; the first one counts"},
		{"without a language", `<o:source id="a"/>`, Origin{}, "has a source without a language"},
		{"a negative ordinal", `<o:source language="radl" id="a" ordinal="-1"/>`, Origin{}, `with the ordinal "-1"; write a whole number from 0`},
		{"an ordinal without end", `<o:source language="radl" id="a" ordinal="99999999999999999999"/>`, Origin{}, "with the ordinal"},
		{"of another namespace", `<source xmlns="urn:x" language="radl"/>`, Origin{}, ""},
	} {
		r := mustParse(t, request(`<node client_id="n" xmlns:o="`+originSpace+`">`+tt.in+`</node>`), ours())
		if got := r.Nodes[0].Origin; got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, got, tt.want)
		}
		if remarks := strings.Join(Lines(r.Notices), "; "); (remarks == "") != (tt.remark == "") || !strings.Contains(remarks, tt.remark) {
			t.Errorf("%s: remarks %q, want %q", tt.rule, remarks, tt.remark)
		}
	}
}
