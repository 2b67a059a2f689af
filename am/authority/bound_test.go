package authority

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

// fill makes n slices of alice, each with sliver records, and n members with a key each.
func (f *fixture) fill(n, slivers int) {
	f.t.Helper()
	alice := mustURN(userURN("alice"))
	err := f.store.update(func(t *tx) error {
		for i := range n {
			s := Slice{group: group{URN: mustURN(sliceURN(fmt.Sprint("fill", i))), Expires: f.now.Add(time.Hour), Members: []Membership{{Member: alice, Role: Lead, Accepted: true}}}}
			if err := putSlice(t, s); err != nil {
				return err
			}
			for j := range slivers {
				x := SliverInfo{URN: mustURN(fmt.Sprintf("urn:publicid:IDN+elsewhere.org+sliver+%d-%d", i, j)), Slice: s.URN, Aggregate: mustURN("urn:publicid:IDN+elsewhere.org+authority+am"), Creator: alice}
				if err := putSliverInfo(t, x); err != nil {
					return err
				}
			}
			m := Member{URN: mustURN(userURN(fmt.Sprint("u", i)))}
			if err := put(t, members, m.URN.Key(), m); err != nil {
				return err
			}
			if err := putKey(t, Key{ID: fmt.Sprint("key", i), Member: m.URN, Public: keyLine}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// hostile returns a match of the fields with as many values as possible in all.
func hostile(fields ...string) xmlrpc.Struct {
	var list []xmlrpc.Member
	for _, name := range fields {
		var values []xmlrpc.Value
		for i := range maxMatched / len(fields) {
			values = append(values, fmt.Sprintf("urn:publicid:IDN+elsewhere.org+sliver+none%d", i))
		}
		list = append(list, text(name, values))
	}
	return options("match", list...)
}

// TestTransactionsDecodeFewRecords makes each call that lists or searches, beside many records. A
// transaction holds up all other members, so it may decode only the records of the call itself.
func TestTransactionsDecodeFewRecords(t *testing.T) {
	f := newFixture(t)
	f.fill(90, 20)
	f.must("alice", "/sa/2", "create", "PROJECT", none, options("fields", text("PROJECT_NAME", "course")))
	f.createSlice("alice", "lab", text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course"))
	labURN := "urn:publicid:IDN+example.org:course+slice+lab"
	credential := func() xmlrpc.Value {
		list := f.must("alice", "/sa/2", "get_credentials", labURN, none, xmlrpc.Struct{}).([]xmlrpc.Value)
		doc, _ := list[0].(xmlrpc.Struct).Get("geni_value")
		return doc
	}()
	pg := func(members ...xmlrpc.Member) xmlrpc.Struct { return append(members, text("credential", credential)) }
	f.store.mostDecoded.Store(0)
	sliver := "urn:publicid:IDN+elsewhere.org+sliver+1-1"
	for _, x := range []struct {
		path, method string
		params       []xmlrpc.Value
	}{
		{"/sa/2", "lookup", []xmlrpc.Value{"SLIVER_INFO", none, hostile("SLIVER_INFO_URN", "SLIVER_INFO_SLICE_URN", "SLIVER_INFO_AGGREGATE_URN", "SLIVER_INFO_CREATOR_URN")}},
		{"/sa/2", "lookup", []xmlrpc.Value{"SLIVER_INFO", none, hostile("SLIVER_INFO_URN")}},
		{"/sa/2", "lookup", []xmlrpc.Value{"SLIVER_INFO", none, xmlrpc.Struct{}}},
		{"/sa/2", "lookup", []xmlrpc.Value{"SLICE", none, hostile("SLICE_NAME", "SLICE_PROJECT_URN")}},
		{"/sa/2", "lookup", []xmlrpc.Value{"SLICE", none, xmlrpc.Struct{}}},
		{"/sa/2", "lookup", []xmlrpc.Value{"PROJECT", none, hostile("PROJECT_NAME")}},
		{"/sa/2", "lookup_members", []xmlrpc.Value{"SLICE", labURN, none, xmlrpc.Struct{}}},
		{"/sa/2", "lookup_for_member", []xmlrpc.Value{"SLICE", userURN("alice"), none, hostile("SLICE_NAME")}},
		{"/sa/2", "lookup_for_member", []xmlrpc.Value{"PROJECT", userURN("alice"), none, xmlrpc.Struct{}}},
		{"/ma/2", "lookup", []xmlrpc.Value{"MEMBER", none, hostile("MEMBER_URN", "MEMBER_EMAIL")}},
		{"/ma/2", "lookup", []xmlrpc.Value{"KEY", none, hostile("KEY_PUBLIC", "KEY_DESCRIPTION")}},
		{"/ma/2", "lookup", []xmlrpc.Value{"KEY", none, hostile("KEY_MEMBER")}},
		{"/ma/1", "lookup_keys", []xmlrpc.Value{none, xmlrpc.Struct{}}},
		{"/ma/1", "lookup_public_member_info", []xmlrpc.Value{xmlrpc.Struct{}}},
		{"/sa/2", "create", []xmlrpc.Value{"SLICE", none, options("fields", text("SLICE_NAME", "more"))}},
		{"/sa/2", "create", []xmlrpc.Value{"PROJECT", none, options("fields", text("PROJECT_NAME", "more"))}},
		{"/sa/2", "create", []xmlrpc.Value{"SLIVER_INFO", none, options("fields", text("SLIVER_INFO_URN", sliver), text("SLIVER_INFO_SLICE_URN", labURN), text("SLIVER_INFO_AGGREGATE_URN", "urn:publicid:IDN+elsewhere.org+authority+am"), text("SLIVER_INFO_CREATOR_URN", userURN("alice")))}},
		{"/sa/2", "update", []xmlrpc.Value{"SLIVER_INFO", sliver, none, options("fields", text("SLIVER_INFO_EXPIRATION", "2026-12-01T00:00:00Z"))}},
		{"/sa/2", "delete", []xmlrpc.Value{"SLIVER_INFO", sliver, none, xmlrpc.Struct{}}},
		{"/ma/2", "create", []xmlrpc.Value{"KEY", none, options("fields", text("KEY_MEMBER", userURN("alice")), text("KEY_PUBLIC", strings.Replace(keyLine, "JGk", "JGm", 1)))}},
		{"/protogeni/xmlrpc/sa", "Resolve", []xmlrpc.Value{pg(text("type", "User"), text("urn", userURN("alice")))}},
		{"/protogeni/xmlrpc/sa", "GetKeys", []xmlrpc.Value{pg()}},
		{"/protogeni/xmlrpc/sa", "RenewSlice", []xmlrpc.Value{pg(text("expiration", "2026-12-01T00:00:00Z"))}},
	} {
		f.must("alice", x.path, x.method, x.params...)
		// The limit of slices counts the ends of the caller's slices, which are short records.
		most := int64(10)
		if x.method == "create" && x.params[0] == "SLICE" {
			most = maxSlices + 10
		}
		if n := f.store.mostDecoded.Swap(0); n > most {
			t.Errorf("%s %v decoded %d records in one transaction", x.method, x.params[0], n)
		}
	}
	if err := f.store.update(func(t *tx) error {
		for i := range maxRows {
			if err := putKey(t, Key{ID: fmt.Sprint("more", i), Member: mustURN(userURN(fmt.Sprint("u", i%90))), Public: keyLine}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if a := f.call("alice", "/ma/2", "lookup", "KEY", none, xmlrpc.Struct{}); a.code != Argument || !strings.Contains(a.output, "more than 10000 records") {
		t.Errorf("a lookup of all keys: %d %s", a.code, a.output)
	}
	f.must("alice", "/ma/2", "lookup", "KEY", none, options("match", text("KEY_MEMBER", userURN("U1"))))
}

// BenchmarkCreateBesideLookups measures one member's call while six lookups of another run.
func BenchmarkCreateBesideLookups(b *testing.B) {
	f := newFixture(&testing.T{})
	f.fill(90, 20)
	stop := make(chan struct{})
	defer close(stop)
	for range 6 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					f.call("alice", "/sa/2", "lookup", "SLIVER_INFO", none, hostile("SLIVER_INFO_URN", "SLIVER_INFO_SLICE_URN", "SLIVER_INFO_AGGREGATE_URN", "SLIVER_INFO_CREATOR_URN"))
				}
			}
		}()
	}
	var slowest time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		create1(f, "bob", "PROJECT", text("PROJECT_NAME", fmt.Sprint("p", i)))
		slowest = max(slowest, time.Since(begin))
	}
	b.ReportMetric(slowest.Seconds(), "slowest-s")
}

// TestOldSlicesAreRemoved creates slices after the ends of others. Their records go, with all that
// belongs to them, after 30 days, and earlier if a member has too many.
func TestOldSlicesAreRemoved(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "old")
	f.add("old", "bob", PlainMember)
	create1(f, "bob", "SLIVER_INFO", sliver("old", "1")...)
	left := func() (n int) {
		f.t.Helper()
		if err := f.store.view(func(t *tx) error {
			n = len(following(t, memberships, maxRows, userURN("bob"))) + len(following(t, sliversOf, maxRows, userURN("bob"))) + count(t, sliverInfos) + count(t, certificates)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	f.now = today.Add(FirstLease + keptExpired)
	f.createSlice("carol", "new1")
	if has, err := f.HasSlice("old"); !has || err != nil || left() != 5 {
		t.Errorf("30 days after its end, the slice is gone: %v, %v, %d", has, err, left())
	}
	f.now = f.now.Add(time.Second)
	f.createSlice("carol", "new2")
	if has, err := f.HasSlice("old"); has || err != nil || left() != 2 {
		t.Errorf("later, the slice remains: %v, %v, %d", has, err, left())
	}
	for i := range maxSlices + 5 {
		f.createSlice("alice", fmt.Sprint("s", i), text("SLICE_EXPIRATION", f.now.Add(time.Second).Format(time.RFC3339)))
		f.now = f.now.Add(time.Second)
	}
	found := f.must("alice", "/sa/2", "lookup", "SLICE", none, xmlrpc.Struct{}).(xmlrpc.Struct)
	if len(found) > maxSlices+1 {
		t.Errorf("%d expired slices remain", len(found))
	}
}

// TestSliverRecordsBelongToSlice records the same sliver in two slices.
func TestSliverRecordsBelongToSlice(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "lab")
	f.createSlice("carol", "mine")
	find := func(who, slice string) (creator string) {
		s := f.must(who, "/sa/2", "lookup", "SLIVER_INFO", none, options("match", text("SLIVER_INFO_SLICE_URN", sliceURN(slice)))).(xmlrpc.Struct)
		if len(s) > 0 {
			v, _ := s[0].Value.(xmlrpc.Struct).Get("SLIVER_INFO_CREATOR_URN")
			creator = v.(string)
		}
		return creator
	}
	foreign := sliver("mine", "1") // names alice as the creator
	if a := create1(f, "carol", "SLIVER_INFO", foreign...); a.code != None {
		t.Fatal(a.output)
	}
	if a := create1(f, "alice", "SLIVER_INFO", sliver("lab", "1")...); a.code != None {
		t.Errorf("the owner is refused: %s", a.output)
	}
	if got := find("carol", "mine"); got != userURN("carol") {
		t.Errorf("the creator of carol's record is %s", got)
	}
	modify(f, "carol", "mine", change("members_to_add", member("alice", PlainMember)))
	both := f.must("alice", "/sa/2", "lookup", "SLIVER_INFO", none, xmlrpc.Struct{}).(xmlrpc.Struct)
	if len(both) != 1 {
		t.Fatalf("a sliver that is recorded in two slices is found %d times", len(both))
	}
	if v, _ := both[0].Value.(xmlrpc.Struct).Get("SLIVER_INFO_CREATOR_URN"); v != userURN("alice") {
		t.Errorf("of two records, alice sees that of %v", v)
	}
	f.must("carol", "/sa/2", "delete", "SLIVER_INFO", "urn:publicid:IDN+elsewhere.org+sliver+1", none, xmlrpc.Struct{})
	if got := find("alice", "lab"); got != userURN("alice") {
		t.Errorf("after carol's deletion, the creator of alice's record is %q", got)
	}
	f.slivers["lab"] = []am.Sliver{
		{URN: mustURN("urn:publicid:IDN+example.org+sliver+1"), Slice: mustURN(sliceURN("lab")), Status: am.Status{Allocation: am.Provisioned}, Expires: f.now.Add(time.Hour)},
		{URN: mustURN("urn:publicid:IDN+example.org+sliver+2"), Slice: mustURN(sliceURN("lab")), Status: am.Status{Allocation: am.Unallocated}, Expires: f.now.Add(time.Hour)},
		{URN: mustURN("urn:publicid:IDN+example.org+sliver+3"), Slice: mustURN(sliceURN("lab")), Status: am.Status{Allocation: am.Provisioned}, Expires: f.now},
	}
	list := f.must("alice", "/sa/2", "lookup", "SLIVER_INFO", none, options("match", text("SLIVER_INFO_AGGREGATE_URN", "urn:publicid:IDN+EXAMPLE.org+authority+CM"))).(xmlrpc.Struct)
	if len(list) != 1 || !strings.HasSuffix(list[0].Name, "+1") {
		t.Errorf("slivers that were deleted or have ended are listed: %v", list)
	}

	if err := f.store.update(func(t *tx) error {
		for i := range maxReported {
			x := SliverInfo{URN: mustURN(fmt.Sprint("urn:publicid:IDN+elsewhere.org+sliver+many", i)), Slice: mustURN(sliceURN(fmt.Sprint("s", i%3))), Creator: mustURN(userURN("carol"))}
			if err := putSliverInfo(t, x); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if a := create1(f, "carol", "SLIVER_INFO", foreign...); a.code != Argument || !strings.Contains(a.output, "the limit") {
		t.Errorf("record %d of carol: %d %s", maxReported+1, a.code, a.output)
	}
}

// TestIdentityNeedsConsent looks up alice as carol, who wants to know alice's email.
func TestIdentityNeedsConsent(t *testing.T) {
	project := func(f *fixture, who, lead string) {
		role := PlainMember
		if who == lead {
			role = Lead
		}
		f.must(lead, "/sa/2", "modify_membership", "PROJECT", "urn:publicid:IDN+example.org+project+course", none,
			change("members_to_add", xmlrpc.Struct{text("PROJECT_MEMBER", userURN(who)), text("PROJECT_ROLE", string(role))}))
	}
	for _, x := range []struct {
		rule   string
		before func(f *fixture)
		sees   bool
	}{
		{"no relation", func(f *fixture) {}, false},
		{"carol adds alice to her slice", func(f *fixture) {
			f.createSlice("carol", "mine")
			f.must("carol", "/sa/2", "modify_membership", "SLICE", sliceURN("mine"), none, change("members_to_add", member("alice", Lead)))
		}, false},
		{"carol adds alice to her project", func(f *fixture) {
			f.must("carol", "/sa/2", "create", "PROJECT", none, options("fields", text("PROJECT_NAME", "course")))
			project(f, "alice", "carol")
		}, false},
		{"alice gets a credential of the slice", func(f *fixture) {
			f.createSlice("carol", "mine")
			f.must("carol", "/sa/2", "modify_membership", "SLICE", sliceURN("mine"), none, change("members_to_add", member("alice", PlainMember)))
			f.must("alice", "/sa/2", "get_credentials", sliceURN("mine"), none, xmlrpc.Struct{})
		}, true},
		{"alice creates a slice in the project", func(f *fixture) {
			f.must("carol", "/sa/2", "create", "PROJECT", none, options("fields", text("PROJECT_NAME", "course")))
			project(f, "alice", "carol")
			f.createSlice("alice", "lab", text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course"))
		}, true},
		{"alice adds carol to her slice", func(f *fixture) {
			f.createSlice("alice", "lab")
			f.add("lab", "carol", Auditor)
		}, true},
		{"alice's slice has ended", func(f *fixture) {
			f.createSlice("alice", "lab")
			f.add("lab", "carol", Auditor)
			f.now = f.now.Add(FirstLease)
		}, false},
		{"an operator adds alice to carol's slice", func(f *fixture) {
			f.createSlice("carol", "mine")
			if err := f.SetRole("mine", "alice", PlainMember); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"carol leads an operator's project", func(f *fixture) {
			if _, err := f.AddProject("course", "carol", f.now); err != nil {
				t.Fatal(err)
			}
			project(f, "alice", "carol")
		}, true},
		{"bob leads an operator's project with both", func(f *fixture) {
			if _, err := f.AddProject("course", "bob", f.now); err != nil {
				t.Fatal(err)
			}
			project(f, "alice", "bob")
			project(f, "carol", "bob")
		}, false},
	} {
		t.Run(x.rule, func(t *testing.T) {
			f := newFixture(t)
			x.before(f)
			for _, o := range []xmlrpc.Struct{{}, options("match", text("MEMBER_URN", userURN("alice")))} {
				found := f.must("carol", "/ma/2", "lookup", "MEMBER", none, o).(xmlrpc.Struct)
				i := slices.IndexFunc(found, func(m xmlrpc.Member) bool { return m.Name == userURN("alice") })
				if _, sees := found[i].Value.(xmlrpc.Struct).Get("MEMBER_EMAIL"); sees != x.sees {
					t.Errorf("carol sees the email: %v", sees)
				}
			}
			byEmail := f.must("carol", "/ma/2", "lookup", "MEMBER", none, options("match", text("MEMBER_EMAIL", "alice@example.org"))).(xmlrpc.Struct)
			if (len(byEmail) == 1) != x.sees {
				t.Errorf("carol finds alice by the email: %v", byEmail)
			}
		})
	}
}

// TestHiddenCharacters sets each text of a member with characters that a list would show wrongly.
func TestHiddenCharacters(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "lab")
	set := map[string]func(s string) answer{
		"MEMBER_FIRSTNAME": func(s string) answer {
			return f.call("alice", "/ma/2", "update", "MEMBER", userURN("alice"), none, options("fields", text("MEMBER_FIRSTNAME", s)))
		},
		"MEMBER_LASTNAME": func(s string) answer {
			return f.call("alice", "/ma/1", "update_member_info", userURN("alice"), none, options("fields", text("MEMBER_LASTNAME", s)))
		},
		"KEY_TYPE": func(s string) answer {
			return create1(f, "alice", "KEY", text("KEY_MEMBER", userURN("alice")), text("KEY_PUBLIC", keyLine), text("KEY_TYPE", s))
		},
		"KEY_PUBLIC": func(s string) answer {
			return create1(f, "alice", "KEY", text("KEY_MEMBER", userURN("alice")), text("KEY_PUBLIC", keyLine+" "+s))
		},
	}
	for rule, s := range map[string]string{
		"right-to-left override": "a\u202eb", "isolate": "a\u2066b", "mark": "a\u200fb", "escape": "a\u009bb", "line separator": "a\u2028b", "zero width": "a\u200bb",
	} {
		for field, call := range set {
			if a := call(s); a.code != Argument {
				t.Errorf("%s with a %s: %d %s", field, rule, a.code, a.output)
			}
		}
	}
	for _, s := range []string{"Alice", "Zoë d'Örsay", "می\u200cخواهم", ""} {
		if a := set["MEMBER_FIRSTNAME"](s); a.code != None {
			t.Errorf("%q is refused: %s", s, a.output)
		}
	}
}

// TestNamesIgnoreCase finds each object by names and URNs in other letters.
func TestNamesIgnoreCase(t *testing.T) {
	f := newFixture(t)
	f.must("bob", "/sa/2", "create", "PROJECT", none, options("fields", text("PROJECT_NAME", "Course")))
	if a := create1(f, "bob", "PROJECT", text("PROJECT_NAME", "COURSE")); a.code != Duplicate {
		t.Errorf("a second project in other letters: %d %s", a.code, a.output)
	}
	f.createSlice("bob", "MixedCase", text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course"))
	for _, x := range []struct{ path, object, field, value string }{
		{"/sa/2", "SLICE", "SLICE_NAME", "mixedcase"},
		{"/sa/2", "SLICE", "SLICE_URN", "urn:publicid:IDN+EXAMPLE.org:COURSE+slice+mixedcase"},
		{"/sa/2", "SLICE", "SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+COURSE"},
		{"/sa/2", "PROJECT", "PROJECT_NAME", "cOURSE"},
		{"/sa/2", "PROJECT", "PROJECT_URN", "urn:publicid:IDN+example.org+project+course"},
		{"/ma/2", "MEMBER", "MEMBER_USERNAME", "BOB"},
		{"/ma/2", "MEMBER", "MEMBER_URN", userURN("BOB")},
		{"/ma/2", "KEY", "KEY_MEMBER", userURN("BOB")},
		{"/ma/2", "KEY", "KEY_ID", strings.ToUpper(firstKey(f, "bob"))},
		{"/ch/2", "SERVICE", "SERVICE_NAME", "EXAMPLE.ORG"},
		{"/ch/2", "SERVICE", "SERVICE_URN", "urn:publicid:IDN+EXAMPLE.org+authority+SA"},
	} {
		v := f.must("bob", x.path, "lookup", x.object, none, options("match", text(x.field, x.value)))
		found, _ := v.(xmlrpc.Struct)
		list, _ := v.([]xmlrpc.Value)
		if len(found)+len(list) == 0 {
			t.Errorf("%s %s is not found", x.field, x.value)
		}
	}
	slice := "urn:publicid:IDN+example.org:course+slice+mixedcase"
	f.must("bob", "/sa/2", "lookup_members", "PROJECT", "urn:publicid:IDN+example.org+project+COURSE", none, xmlrpc.Struct{})
	f.must("bob", "/sa/2", "modify_membership", "SLICE", slice, none, change("members_to_add", member("ALICE", PlainMember)))
	if a := f.call("bob", "/sa/2", "delete", "PROJECT", "urn:publicid:IDN+example.org+project+COURSE", none, xmlrpc.Struct{}); a.code != Argument || !strings.Contains(a.output, "has the slice") {
		t.Errorf("a project with a slice is deleted: %d %s", a.code, a.output)
	}
	if got := f.must("alice", "/sa/2", "lookup", "SLICE", none, xmlrpc.Struct{}).(xmlrpc.Struct)[0].Name; got != "urn:publicid:IDN+example.org:Course+slice+MixedCase" {
		t.Errorf("the slice is %s", got)
	}
}

// TestArgumentsOfClients makes calls in the forms that clients send.
func TestArgumentsOfClients(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "lab")
	resolve := func(who, field, name string) (xmlrpc.Struct, answer) {
		a := f.call(who, "/protogeni/xmlrpc/sa", "Resolve", xmlrpc.Struct{text("type", "User"), text(field, name)})
		s, _ := a.value.(xmlrpc.Struct)
		return s, a
	}
	for _, x := range []struct {
		who, field, name string
		slices           int
	}{
		{"alice", "urn", userURN("alice"), 1}, {"alice", "hrn", userURN("alice"), 1}, {"alice", "hrn", "lab.alice", 1}, {"bob", "hrn", strings.ToUpper("urn:") + userURN("alice")[4:], 0},
	} {
		s, a := resolve(x.who, x.field, x.name)
		v, ok := s.Get("slices")
		list, _ := v.([]xmlrpc.Value)
		if u, _ := s.Get("urn"); u != userURN("alice") || !ok || len(list) != x.slices {
			t.Errorf("Resolve of %s=%s: %v, %s", x.field, x.name, s, a.output)
		}
	}
	match := options("match", text("MEMBER_URN", userURN("bob")))
	for _, x := range []struct {
		rule, path, method string
		params             []xmlrpc.Value
	}{
		{"credentials and options", "/ma/1", "lookup_public_member_info", []xmlrpc.Value{none, match}},
		{"options only", "/ma/1", "lookup_public_member_info", []xmlrpc.Value{match}},
		{"credentials only", "/ma/1", "lookup_public_member_info", []xmlrpc.Value{none}},
		{"options only, after an object", "/ma/2", "lookup", []xmlrpc.Value{"MEMBER", match}},
		{"options only, after an object", "/ch/2", "lookup", []xmlrpc.Value{"SERVICE", xmlrpc.Struct{}}},
		{"options only, after a URN", "/sa/1", "lookup_slice_members", []xmlrpc.Value{sliceURN("lab"), xmlrpc.Struct{}}},
		{"no options", "/sa/2", "lookup_members", []xmlrpc.Value{"SLICE", sliceURN("lab"), none}},
	} {
		if a := f.call("alice", x.path, x.method, x.params...); a.code != None {
			t.Errorf("%s of %s: %s", x.method, x.rule, a.output)
		}
	}
}

// TestMigration opens the database of an earlier version, which had no indexes and other keys.
func TestMigration(t *testing.T) {
	f := newFixture(t)
	end, course := f.now.Add(time.Hour), urn.URN{Authority: "example.org", Type: urn.Project, Name: "course"}
	upper := course
	upper.Name = "COURSE"
	inUpper := mustURN("urn:publicid:IDN+example.org:COURSE+slice+two")
	alice, bob := Membership{Member: mustURN(userURN("alice")), Role: Lead}, Membership{Member: mustURN(userURN("bob")), Role: Lead}
	err := f.store.update(func(t *tx) error {
		for _, b := range indexes {
			if err := t.DeleteBucket([]byte(b)); err != nil {
				return err
			}
		}
		for _, x := range []struct {
			bucket
			key string
			v   any
		}{
			{sliceRecords, sliceURN("lab"), Slice{group{URN: mustURN(sliceURN("lab")), Expires: end, Members: []Membership{alice, {Member: bob.Member, Role: PlainMember}}}, course}},
			{sliceRecords, inUpper.Key(), Slice{group{URN: inUpper, Expires: end, Members: []Membership{bob}}, upper}},
			{projects, "urn:publicid:IDN+example.org+project+course", Project{group: group{URN: course, Created: f.now, Members: []Membership{alice}}}},
			{projects, "urn:publicid:IDN+example.org+project+COURSE", Project{group: group{URN: upper, Created: f.now.Add(time.Second), Members: []Membership{bob}}}},
			{sliverInfos, "urn:publicid:IDN+elsewhere.org+sliver+1", SliverInfo{URN: mustURN("urn:publicid:IDN+elsewhere.org+sliver+1"), Slice: mustURN(sliceURN("lab")), Creator: alice.Member}},
		} {
			if err := put(t, x.bucket, x.key, x.v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), check(f.store.path)); err != nil {
		t.Errorf("a backup of the earlier version: %v", err)
	}
	names := func(who, path, object string) (list []string) {
		for _, m := range f.must(who, path, "lookup", object, none, xmlrpc.Struct{}).(xmlrpc.Struct) {
			list = append(list, m.Name[strings.LastIndexByte(m.Name, '+')+1:])
		}
		return list
	}
	for range 2 { // opening it again changes nothing
		f.open()
		for _, x := range []struct{ who, path, object, want string }{
			{"alice", "/sa/2", "SLICE", "[lab]"}, {"bob", "/sa/2", "SLICE", "[lab two]"}, {"alice", "/sa/2", "PROJECT", "[course]"}, {"bob", "/sa/2", "PROJECT", "[COURSE-2]"},
			{"bob", "/sa/2", "SLIVER_INFO", "[1]"},
		} {
			if got := fmt.Sprint(names(x.who, x.path, x.object)); got != x.want {
				t.Errorf("%s has the %s %s, want %s", x.who, x.object, got, x.want)
			}
		}
		if n := len(names("carol", "/ma/2", "KEY")); n != 3 {
			t.Errorf("%d keys", n)
		}
		firstKey(f, "bob")
	}
	found := f.must("bob", "/sa/2", "lookup", "SLICE", none, options("match", text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course-2"))).(xmlrpc.Struct)
	if len(found) != 1 || found[0].Name != inUpper.String() {
		t.Errorf("the slices of the renamed project are %v", found)
	}
	f.now = end.Add(keptExpired + time.Second)
	f.createSlice("carol", "new1")
	if a := names("bob", "/sa/2", "SLICE"); len(a) != 0 {
		t.Errorf("old slices remain: %v", a)
	}
}
