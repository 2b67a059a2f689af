package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// A world is a site with users and slices by name, for tests that are written as
// stories: a line is a call and the expected answer.
//
//	alice owns s1 48h                       a slice of hers, and a credential of so long
//	alice owns s1 9h as long                another credential of the slice, named long
//	alice Allocate s1 a b@pc7 c:vm          nodes: raw-pc, on a component, of another type
//	alice Provision s1.a geni_users=alice   a sliver by its client_id; an option
//	alice Renew s1 +3h -> REFUSED "latest"  a code other than SUCCESS, and a text of the answer
//	bob Status s1 with=user -> FORBIDDEN    other credentials than that of the slice
//	pass 10m, settle                        time passes; providers do their tasks
//	thaw s1                                 an operator lifts the shutdown of a slice
//	begin, expire                           slivers begin whose start has come; leases end that are over
//
// Methods that both versions have are of version 2 with a 2 at their end. A word
// that begins with $ stands for a text of the story. Times are + or - from the clock,
// or begin+ from the clock's start. Of an answer may be expected:
//
//	-> BUSY       its code, SUCCESS if none is given; BUSY|TOOBIG for either; FAULT
//	-> "text"     a text somewhere in it; !"text" nowhere; 2*"text" so often
//	-> a:ready    the slivers, all of them, by client_id and state
//	-> #2         how many slivers it lists
//	-> @+24h      when the leases of its slivers end; a@+24h of one
//	-> PATH=<int>3  an element as it stands on the wire; PATH=<int> its type alone
type world struct {
	*site
	callers map[string]*caller
	creds   map[string]string // credentials by the names of their slices, or their own
	urns    map[string]string // of slices s1, and of slivers s1.a
	texts   map[string]string // for words that begin with $
	began   time.Time
	answer  *onWire           // the last
	hear    func(body string) // if not nil, gets the body of each answer
}

func newWorld(t testing.TB, texts ...string) *world { return setting{}.world(t, texts...) }

// world makes a site; texts are names and what they stand for, in pairs.
func (o setting) world(t testing.TB, texts ...string) *world {
	t.Helper()
	w := &world{site: o.site(t), callers: map[string]*caller{}, creds: map[string]string{"junk": "junk"}, urns: map[string]string{}, texts: map[string]string{}}
	w.began = w.clock()
	w.callers["nobody"] = &caller{site: w.site}
	w.urns["nope"] = missing
	for i := 0; i < len(texts); i += 2 {
		w.texts["$"+texts[i]] = texts[i+1]
	}
	return w
}

// play makes the calls of a story; the first line that goes otherwise ends the test.
func (w *world) play(story string) *world {
	w.t.Helper()
	for _, line := range strings.Split(story, "\n") {
		call, want, answered := strings.Cut(line, "->")
		if call = strings.TrimSpace(call); call == "" {
			continue
		}
		if err := w.line(words(call), words(want), answered); err != nil {
			w.t.Fatalf("%s\n%v", strings.TrimSpace(line), err)
		}
		w.remember()
	}
	return w
}

// words are the fields of a line; quotes keep blanks.
func words(line string) []string {
	var quote rune
	list := strings.FieldsFunc(line, func(r rune) bool {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			return false
		case r == '"' || r == '\'':
			quote = r
		}
		return quote == 0 && (r == ' ' || r == '\t')
	})
	if quote != 0 {
		panic("a quote is not closed: " + line)
	}
	return list
}

func unquote(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') {
		return s[1 : len(s)-1]
	}
	return s
}

// remember stores the URNs of the existing slivers.
func (w *world) remember() {
	w.t.Helper()
	all, err := w.store.Slivers()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range all {
		w.urns[x.Slice.Name+"."+x.ClientID] = x.URN.String()
	}
}

func (w *world) who(name string) *caller {
	if w.callers[name] == nil {
		w.callers[name] = w.user(name)
	}
	return w.callers[name]
}

// duration is one of Go's, or days such as 20d.
func duration(s string) time.Duration {
	days, isDays := strings.CutSuffix(s, "d")
	if isDays {
		s = days + "h"
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	if isDays {
		d *= 24
	}
	return d
}

// value returns the meaning of a word.
func (w *world) value(word string) string {
	if text, ok := w.texts[word]; ok {
		return text
	}
	if u, ok := w.urns[word]; ok {
		return u
	}
	if d, ok := strings.CutPrefix(word, "begin+"); ok {
		return FormatTime(w.began.Add(duration(d)))
	}
	if len(word) > 1 && (word[0] == '+' || word[0] == '-') && word[1] >= '0' && word[1] <= '9' {
		return w.at(duration(strings.TrimPrefix(word, "+")))
	}
	if word[0] == '$' {
		panic(word + " stands for nothing")
	}
	return unquote(word)
}

// lengths are the words of lines that are no calls.
var lengths = map[string]int{"pass": 2, "settle": 1, "maintenance": 2, "thaw": 2, "begin": 1, "expire": 1}

func (w *world) line(call, want []string, answered bool) error {
	if n := lengths[call[0]]; n > 0 && len(call) != n || answered && (n > 0 || call[1] == "owns") {
		return errors.New("a word too many, or too few")
	}
	switch call[0] {
	case "pass":
		w.pass(duration(call[1]))
		return nil
	case "settle":
		w.settle()
		return nil
	case "begin":
		return w.store.Commit(w.t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
			cs, _, err = w.service.Begin(v, 100)
			return cs, err
		})
	case "expire":
		return leaseRunner{site: w.site}.EndLeases(w.t.Context())
	case "maintenance":
		w.loadMaintenance(w.value(call[1]))
		return nil
	case "thaw":
		return w.store.Commit(w.t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
			_, err = lease.Thaw(v, &cs, urn.MustParse(w.value(call[1])), time.Time{})
			return cs, err
		})
	}
	c := w.who(call[0])
	if call[1] == "owns" {
		if len(call) != 4 && (len(call) != 6 || call[4] != "as") {
			return errors.New("not NAME owns SLICE DURATION, nor that as NAME")
		}
		u, credential := c.slice(call[2], duration(call[3]))
		w.urns[call[2]], w.creds[call[len(call)-1]] = u, credential
		if len(call) == 4 {
			w.creds[call[2]] = credential
		}
		return nil
	}
	method, version := call[1], Version3
	if _, ok := methods[Version3][method]; !ok {
		version = Version2
		if _, ok := methods[Version2][method]; !ok {
			method = strings.TrimSuffix(method, "2")
		}
	}
	sent := callBody(w.t, method, w.params(c, version, method, call[2:])...)
	body := string(w.api.Serve(w.t.Context(), version, Request{ID: "r1", Chain: c.chain, Body: sent}).Body)
	if w.hear != nil {
		w.hear(body)
	}
	w.answer = c.read(body)
	if code, output := w.answer.code(), w.answer.at("output"); code > 0 && output != nil {
		w.previewed(sent, code, output.text)
	}
	return w.check(w.answer, want)
}

// sliceMethods take one URN of a slice as a string; others of version 3 take a list.
var sliceMethods = map[string]bool{"Allocate": true, "Shutdown": true}

// params are the arguments of a call, as its method wants them.
func (w *world) params(c *caller, version int, method string, args []string) []xmlrpc.Value {
	options, users, with := opts(), xmlrpc.Value([]xmlrpc.Value{}), ""
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || strings.ContainsAny(name, `<"'$ `) {
			return false
		}
		switch name {
		case "with":
			with = value
		case "users":
			users = w.users(value)
		case "patchbay_preview": // slivers
			list := []xmlrpc.Value{}
			for u := range strings.SplitSeq(value, ",") {
				if u != "" {
					list = append(list, w.value(u))
				}
			}
			options = append(options, opt(name, list))
		case "geni_users":
			options = append(options, opt(name, w.users(value)))
		case "version": // none
			if value != "" {
				panic("the version of RSpecs may only be left out")
			}
			options = options[1:]
		default:
			options = append(options, opt(name, scalarOf(w.value(value))))
		}
		return true
	})
	var params []xmlrpc.Value
	var targets []string
	switch {
	case method == "GetVersion":
		for _, a := range args {
			params = append(params, w.value(a))
		}
		return params
	case method == "ListResources":
		targets, args = args, nil
		if len(targets) > 0 {
			options = append(options, opt("geni_slice_urn", w.value(targets[0])))
		} else if with == "" {
			with = "user"
		}
	default:
		n := 1 // targets stand before what is no URN
		for n < len(args) && version == Version3 && !sliceMethods[method] && w.isURN(args[n]) {
			n++
		}
		targets, args = args[:n], args[n:]
		if version == Version2 || sliceMethods[method] {
			params = append(params, w.value(targets[0]))
		} else {
			list := []xmlrpc.Value{}
			for _, u := range targets {
				list = append(list, w.value(u))
			}
			params = append(params, list)
		}
	}
	if with == "" {
		with, _, _ = strings.Cut(targets[0], ".")
	}
	var shown []string
	for _, name := range strings.Split(with, ",") {
		switch name {
		case "none":
		case "user":
			shown = append(shown, c.user)
		default:
			credential, ok := w.creds[name]
			if !ok {
				panic("there is no credential " + name)
			}
			shown = append(shown, credential)
		}
	}
	if version == Version2 {
		params = append(params, strs(shown...))
	} else {
		params = append(params, creds(shown...))
	}
	switch method {
	case "Allocate", "CreateSliver":
		params = append(params, w.rspec(args))
		if method == "CreateSliver" {
			params = append(params, users)
		}
		args = nil
	case "Renew", "RenewSliver", "PerformOperationalAction":
		params = append(params, w.value(args[0]))
		args = args[1:]
	}
	if len(args) > 0 {
		panic(fmt.Sprintf("%s does not read %q", method, args))
	}
	return append(params, options)
}

func (w *world) isURN(word string) bool {
	_, known := w.urns[word]
	return known || strings.HasPrefix(word, "urn:") || strings.HasPrefix(word, "$urn")
}

func scalarOf(s string) xmlrpc.Value {
	if b, err := strconv.ParseBool(s); err == nil && len(s) > 1 {
		return b
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return s
}

// users are geni_users: names of users of the site, each with the key of the tests.
func (w *world) users(names string) []xmlrpc.Value {
	list := []xmlrpc.Value{}
	for _, name := range strings.Split(names, ",") {
		if name, keyless := strings.CutSuffix(name, "-"); name != "" {
			u := user("urn:publicid:IDN+"+authority+"+user+"+name, testKey)
			if keyless {
				u = user("urn:publicid:IDN+" + authority + "+user+" + name)
			}
			list = append(list, u)
		}
	}
	return list
}

// rspec is the request for nodes, or a text that is one.
func (w *world) rspec(nodes []string) string {
	var list []string
	for _, word := range nodes {
		text := w.value(word)
		id, component, bound := strings.Cut(text, "@")
		id, typ, typed := strings.Cut(id, ":")
		switch {
		case word[0] == '$' && !strings.HasPrefix(text, "<node") && !strings.HasPrefix(text, "<link"):
			return text
		case word[0] == '$':
			list = append(list, text)
		case bound:
			list = append(list, onNode(id, component))
		case typed:
			list = append(list, `<node client_id="`+id+`"><sliver_type name="`+typ+`"/></node>`)
		default:
			list = append(list, node(id))
		}
	}
	return request(list...)
}

// check compares an answer with the expected one.
func (w *world) check(e *onWire, want []string) error {
	codes, states := am.Success.String(), map[string]string{}
	if len(want) > 0 && regexp.MustCompile(`^[A-Z_|]+$`).MatchString(want[0]) {
		codes, want = want[0], want[1:]
	}
	got := e.code().String()
	if e.child("fault") != nil {
		got = "FAULT"
	}
	text := e.everything()
	if !slices.Contains(strings.Split(codes, "|"), got) {
		return fmt.Errorf("code %s, want %s: %.600q", got, codes, text)
	}
	for _, word := range want {
		if err := w.expect(e, text, word, states); err != nil {
			return err
		}
	}
	if len(states) > 0 && len(states) != len(e.sliverStructs()) {
		return fmt.Errorf("%d slivers, want %d", len(e.sliverStructs()), len(states))
	}
	return nil
}

func (w *world) expect(e *onWire, text, word string, states map[string]string) error {
	if path, typed, ok := strings.Cut(word, "=<"); ok {
		typ, is, _ := strings.Cut(typed, ">")
		if is == "" {
			return e.is(path, typ)
		}
		return e.is(path, typ, w.value(is))
	}
	if word == `""` || word == "''" || word == "!" {
		return fmt.Errorf("%s expects nothing", word)
	}
	if times, quoted, ok := strings.Cut(word, "*"); ok && times != "" && strings.Trim(times, "0123456789") == "" {
		if n, _ := strconv.Atoi(times); strings.Count(text, unquote(quoted)) != n {
			return fmt.Errorf("%s occurs %d times in %s", quoted, strings.Count(text, unquote(quoted)), text)
		}
		return nil
	}
	not := strings.HasPrefix(word, "!")
	if s := strings.TrimPrefix(word, "!"); s[0] == '"' || s[0] == '\'' || s[0] == '$' {
		if s = w.value(s); strings.Contains(text, s) == not {
			return fmt.Errorf("%q occurs: %v, in %s", s, !not, text)
		}
		return nil
	}
	if n, ok := strings.CutPrefix(word, "#"); ok {
		if n != strconv.Itoa(len(e.sliverStructs())) {
			return fmt.Errorf("%d slivers", len(e.sliverStructs()))
		}
		return nil
	}
	if id, end, ok := strings.Cut(word, "@"); ok {
		found := false
		for _, s := range e.sliverStructs() {
			if id != "" && s.member("geni_client_id") != id {
				continue
			}
			if found = true; s.member("geni_expires") != w.value(end) {
				return fmt.Errorf("%s until %s, want %s", s.member("geni_client_id"), s.member("geni_expires"), w.value(end))
			}
		}
		if !found {
			return fmt.Errorf("%s: no such sliver in %s", word, text)
		}
		return nil
	}
	id, state, ok := strings.Cut(word, ":")
	if !ok || state == "" {
		return fmt.Errorf("%s expects no state", word)
	}
	states[id] = state
	for _, s := range e.sliverStructs() {
		if s.member("geni_client_id") == id {
			if is := []string{s.member("geni_operational_status"), s.member("geni_allocation_status"), "geni_" + s.member("geni_status")}; !slices.Contains(is, "geni_"+state) {
				return fmt.Errorf("%s is in %v, want %s", id, is, state)
			}
			return nil
		}
	}
	return fmt.Errorf("%s is not in %s", id, text)
}

// sliverStructs returns the structs of slivers in an answer of either version.
func (e *onWire) sliverStructs() []*onWire {
	for _, path := range []string{"value.geni_slivers", "value.geni_resources", "value"} {
		if x := e.at(path); x != nil && x.name == "array" {
			return x.items()
		}
	}
	return nil
}

// member is the text of a member; empty if there is none.
func (e *onWire) member(name string) string {
	if x := e.at(name); x != nil {
		return x.text
	}
	return ""
}

// everything is all text of an answer.
func (e *onWire) everything() string {
	s := e.text
	for _, k := range e.kids {
		s += k.everything() + "\n"
	}
	return s
}
