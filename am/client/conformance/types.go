package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"patchbay/am/api/xmlrpc"
)

// typeErrors collects what is wrong with the types in answers.
type typeErrors struct {
	mu                   sync.Mutex
	envelopes            map[int][]string // by version
	slivers              map[int][]string
	calls, sliversLooked map[int]int
}

func (t *typeErrors) add(to *map[int][]string, version int, format string, a ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *to == nil {
		*to = map[int][]string{}
	}
	if text := fmt.Sprintf(format, a...); !slices.Contains((*to)[version], text) && len((*to)[version]) < 5 {
		(*to)[version] = append((*to)[version], text)
	}
}

// envelope reads the envelope of an answer, and records what is wrong with its types. It returns
// errMalformed unless the answer has a code and a value.
func (t *typeErrors) envelope(version int, method string, v xmlrpc.Value) (r reply, err error) {
	t.mu.Lock()
	if t.calls == nil {
		t.calls = map[int]int{}
	}
	t.calls[version]++
	t.mu.Unlock()
	bad := func(format string, a ...any) (reply, error) {
		t.add(&t.envelopes, version, method+": "+format, a...)
		return r, errMalformed
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return bad("the answer is %T, not a struct", v)
	}
	code, _ := s.Get("code")
	codes, ok := code.(xmlrpc.Struct)
	if !ok {
		return bad("code is %T, not a struct", code)
	}
	number, _ := codes.Get("geni_code")
	if r.code, ok = number.(int); !ok {
		return bad("geni_code is %T, not an int", number)
	}
	output, has := s.Get("output")
	if r.output, ok = output.(string); has && !ok {
		return bad("output is %T, not a string", output)
	}
	if r.code != 0 && r.output == "" {
		return bad("code %d comes without a text in output", r.code)
	}
	r.value, has = s.Get("value")
	if r.code == 0 && (!has || r.value == nil) {
		return bad("the answer has no value")
	}
	return r, nil
}

// sliver is one sliver of an answer of version 3.
type sliver struct {
	urn, allocation, operational, failure string
	expires                               time.Time
}

// readSlivers reads the slivers of an answer of version 3, and records what is wrong with their
// types. It returns errMalformed unless all slivers have the members that the API requires.
func (p *probe) readSlivers(method string, v xmlrpc.Value) (list []sliver, err error) {
	p.types.mu.Lock()
	if p.types.sliversLooked == nil {
		p.types.sliversLooked = map[int]int{}
	}
	p.types.sliversLooked[3]++
	p.types.mu.Unlock()
	if s, ok := v.(xmlrpc.Struct); ok {
		v, _ = s.Get("geni_slivers")
	}
	values, ok := v.([]xmlrpc.Value)
	bad := func(format string, a ...any) {
		p.types.add(&p.types.slivers, 3, method+": "+format, a...)
		err = errMalformed
	}
	if !ok {
		bad("the slivers are %T, not an array", v)
		return nil, err
	}
	for _, v := range values {
		m, ok := v.(xmlrpc.Struct)
		if !ok {
			bad("a sliver is %T, not a struct", v)
			continue
		}
		x := sliver{failure: text(m, "geni_error")}
		for _, f := range []struct {
			name string
			to   *string
		}{{"geni_sliver_urn", &x.urn}, {"geni_allocation_status", &x.allocation}} {
			if *f.to = text(m, f.name); *f.to == "" {
				v, _ := m.Get(f.name)
				bad("%s is %T %v, not a text", f.name, v, v)
			}
		}
		x.operational = text(m, "geni_operational_status")
		if x.expires, ok = readTime(m, "geni_expires"); !ok {
			v, _ := m.Get("geni_expires")
			bad("geni_expires is %v, not a time such as 2030-01-31T12:00:00Z", v)
		}
		list = append(list, x)
	}
	return list, err
}

// readTime returns false for a missing time and one that is not in RFC 3339.
func readTime(m xmlrpc.Struct, name string) (time.Time, bool) {
	v, _ := m.Get(name)
	if t, ok := v.(time.Time); ok {
		return t, true
	}
	s, _ := v.(string)
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

func typeChecks(version int) []check {
	api := fmt.Sprintf("AM API v%d", version)
	name := func(rule string) string { return fmt.Sprintf("types%d.%s", version, rule) }
	report := func(p *probe, errs *map[int][]string, looked *map[int]int) error {
		p.types.mu.Lock()
		defer p.types.mu.Unlock()
		if list := (*errs)[version]; len(list) > 0 {
			return fmt.Errorf("%s", list)
		}
		if (*looked)[version] == 0 {
			return notTried("there was no answer")
		}
		return nil
	}
	list := []check{{name("envelope"), api + ", return struct", nil, false, func(p *probe) error { return report(p, &p.types.envelopes, &p.types.calls) }}}
	if version == 3 {
		list = append(list, check{name("slivers"), api + ", slivers in answers", nil, false, func(p *probe) error { return report(p, &p.types.slivers, &p.types.sliversLooked) }})
	}
	return list
}
