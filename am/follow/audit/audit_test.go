package audit

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/disk"
	"patchbay/am/testkit/require"
	"patchbay/am/urn"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// site is a store with its audit, and a clock.
type site struct {
	t       testing.TB
	dir     string
	path    string
	now     time.Time
	refused bool // the store cannot write
	store   *store.Store
	log     *Log
	calls   int
}

func newSite(t testing.TB) *site {
	s := &site{t: t, dir: quickDir(t), now: noon}
	s.path = filepath.Join(s.dir, "audit.log")
	s.open()
	t.Cleanup(func() { s.store.Close() })
	return s
}

// quickDir is a folder in memory, where there is one: disks are waited for at each
// commit.
func quickDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "patchbay-audit-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *site) open() {
	s.t.Helper()
	var err error
	clock := func() time.Time { return s.now }
	if s.store, err = store.Open(filepath.Join(s.dir, "state.db"), store.Options{Now: clock}); err != nil {
		s.t.Fatal(err)
	}
	if s.log, err = Open(s.path, s.store, Options{Now: clock}); err != nil {
		s.t.Fatal(err)
	}
}

// crash closes store and audit without a stop line and opens them again.
func (s *site) crash() {
	s.t.Helper()
	if s.log.file != nil {
		s.log.file.Close()
	}
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
}

func name(kind, name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: kind, Name: name}
}

// commit is a call's change. Its line is written by follow.
func (s *site) commit(extra ...am.JournalEntry) string {
	s.t.Helper()
	s.calls++
	id := fmt.Sprintf("call%d", s.calls)
	s.change(func(cs *store.ChangeSet) {
		cs.Log(am.JournalEntry{
			At: s.now, Event: "geni_start", Request: id, Method: "PerformOperationalAction", API: 3, Remote: "192.0.2.1:1", Caller: name("user", "alice"),
			Speaker: name("tool", "portal"), Credentials: []string{"f00d"}, Slice: name("slice", "s"), Slivers: []urn.URN{name("sliver", "a"), name("sliver", "b")},
		})
		for _, e := range extra {
			cs.Log(e)
		}
	})
	return id
}

func (s *site) change(f func(*store.ChangeSet)) {
	s.t.Helper()
	err := s.store.Commit(s.t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		f(&cs)
		return cs, nil
	})
	if (err != nil) != s.refused {
		s.t.Fatal(err)
	}
}

// follow writes the lines of changes, as Run does.
func (s *site) follow() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.follow()
}

// answered writes the line of a call.
func (s *site) answered(id string) {
	s.log.Call(Call{ID: id, Method: "Allocate", API: 3, Caller: name("user", "alice"), Slice: name("slice", "s"), Slivers: 2})
}

// lines returns the lines of the audit and of the moved files, oldest first.
func (s *site) lines() (all []Line) {
	s.t.Helper()
	files, err := Files(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		err := readLines(f, func(text []byte) bool {
			if l, ok := decode(text); ok {
				all = append(all, l)
			}
			return true
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return all
}

// shortLines returns the lines in a short form.
func (s *site) shortLines() (all []string) {
	s.t.Helper()
	for _, l := range s.lines() {
		text := l.Event
		for _, x := range []string{l.What, l.ID, l.Request, l.Sliver, strings.Join(l.Addresses, ","), strings.Join(l.Endpoints, ","), strings.Join(l.Outside, ",")} {
			if x != "" {
				text += " " + strings.TrimPrefix(x, "urn:publicid:IDN+example.org+")
			}
		}
		if l.Again {
			text += " again"
		}
		all = append(all, text)
	}
	return all
}

func (s *site) wants(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.shortLines()); diff != "" {
		s.t.Errorf("the audit (-want +got):\n%s", diff)
	}
}

func TestFormOfLines(t *testing.T) {
	s := newSite(t)
	s.commit(am.JournalEntry{At: noon, Event: "geni_expire", Slice: name("slice", "t"), Slivers: []urn.URN{name("sliver", "c")}})
	s.log.Call(Call{
		ID: "call1", Method: "Allocate", API: 3, Remote: "[2001:db8::1]:40", Caller: name("user", "alice"), Speaker: name("tool", "portal"), Slice: name("slice", "s"),
		Slivers: 3, Credentials: []string{"f00d", "beef"}, Code: 7, Detail: am.OutOfRange, Output: "no \u201croom\u201d\n",
	})
	s.follow()
	s.log.Call(Call{ID: "x", Method: "Delete", API: 2, Fault: true, Code: -32602, Output: strings.Repeat("é", maxOutput)})
	s.log.Act(Act{What: "lockdown", Text: "closed", Operator: "root"})
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-11-20T12:00:00.000Z","event":"open","next":"0000000000000001-0000"}
{"at":"2026-11-20T12:00:00.000Z","event":"call","id":"call1","method":"Allocate","api":3,"remote":"[2001:db8::1]:40",` +
		`"caller":"urn:publicid:IDN+example.org+user+alice","speaker":"urn:publicid:IDN+example.org+tool+portal","slice":"urn:publicid:IDN+example.org+slice+s","slivers":3,` +
		`"credentials":["f00d","beef"],"code":7,"detail":19,"output":"no \u201croom\u201d\n"}
{"at":"2026-11-20T12:00:00.000Z","event":"change","caller":"urn:publicid:IDN+example.org+user+alice","speaker":"urn:publicid:IDN+example.org+tool+portal",` +
		`"slice":"urn:publicid:IDN+example.org+slice+s","slivers":2,"what":"geni_start","request":"call1","next":"0000000000000002-0001"}
{"at":"2026-11-20T12:00:00.000Z","event":"work","slice":"urn:publicid:IDN+example.org+slice+t","what":"geni_expire","sliver":"urn:publicid:IDN+example.org+sliver+c","next":"0000000000000003-0000"}
{"at":"2026-11-20T12:00:00.000Z","event":"call","id":"x","method":"Delete","api":2,"fault":true,"code":-32602,"output":"` + strings.Repeat(`\u00e9`, maxOutput/2) + `\u2026"}
{"at":"2026-11-20T12:00:00.000Z","event":"act","what":"lockdown","operator":"root","text":"closed"}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the audit (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(s.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := Note(s.path, Act{What: "lockdown", Operator: "bob"}); err != nil {
		t.Fatal(err)
	}
	s.wants("open", "call call1", "change geni_start call1", "work geni_expire sliver+c", "call x", "act lockdown", "act lockdown")
}

// TestTextsAreEscapedInLines puts line ends and terminal control characters into every text.
func TestTextsAreEscapedInLines(t *testing.T) {
	evil := "a\n{\"at\":\"2026-11-20T12:00:00.000Z\",\"event\":\"gone\"}\r\x1b[2K\x7f\u0085\u2028\u202e\xff\U0001F600\x00<&>"
	u := urn.URN{Authority: evil, Type: evil, Name: evil}
	l := (&Call{ID: evil, Method: evil, Remote: evil, Caller: u, Speaker: u, Slice: u, Credentials: []string{evil}, Output: evil}).line(noon)
	l.What, l.Operator, l.Text, l.Sliver, l.User, l.Component, l.Request, l.Site = evil, evil, evil, evil, evil, evil, evil, evil
	l.Addresses, l.Endpoints, l.Outside = []string{evil}, []string{evil}, []string{evil}
	text := l.encode()
	for i, c := range text {
		if (c < ' ' || c > '~') && i < len(text)-1 || i == len(text)-1 && c != '\n' {
			t.Fatalf("byte %d of the line is %#x", i, c)
		}
	}
	back, ok := decode(text)
	if !ok || back.Output != strings.ToValidUTF8(evil, "\ufffd") {
		t.Errorf("read back as %q, %v", back.Output, ok)
	}
}

func TestCrashLosesNoLineOfAChange(t *testing.T) {
	s := newSite(t)
	s.commit()
	s.now = noon.Add(time.Hour)
	s.crash()
	s.commit()
	s.follow()
	want := []string{"open", "change geni_start call1", "change geni_start call2"}
	s.wants(want...)
	if l := s.lines()[1]; l.At != "2026-11-20T12:00:00.000Z" {
		t.Errorf("the late line is %+v", l)
	}
	s.crash() // before the cursor was saved
	s.wants(want...)
	s.log.save(t.Context())
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	s.commit()
	s.crash() // the cursor tells
	s.wants("open", "change geni_start call3")
}

// TestPartOfAChangeIsContinued cuts the file within the lines of one change.
func TestPartOfAChangeIsContinued(t *testing.T) {
	s := newSite(t)
	s.commit(am.JournalEntry{At: noon, Event: "one"}, am.JournalEntry{At: noon, Event: "two"})
	s.follow()
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	want := s.shortLines()
	for cut := range len(whole) - 1 {
		if strings.Count(string(whole[:cut]), "\n") == 0 {
			continue // the open line was written long before
		}
		if err := os.WriteFile(s.path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s.crash()
		s.wants(want...)
		if t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
	}
}

func TestAuditOfAnotherStore(t *testing.T) {
	s := newSite(t)
	for range 3 {
		s.commit()
	}
	s.follow()
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.dir, "state.db")); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.commit()
	s.crash()
	s.wants("open", "change geni_start call1", "change geni_start call2", "change geni_start call3", "open", "change geni_start call4")
}

func TestAuditThatWasMovedBeginsANewOne(t *testing.T) {
	s := newSite(t)
	s.commit()
	s.follow()
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	s.log.Act(Act{What: "x"})
	s.wants("open", "change geni_start call1", "open", "act x")
	if err := s.log.Reopen(); err != nil {
		t.Error(err)
	}
	s.commit()
	s.crash()
	s.wants("open", "change geni_start call1", "open", "act x", "change geni_start call2")
	if err := os.Rename(s.path, s.path+".2"); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	s.crash() // nothing has been written into a new file
	s.wants("open", "change geni_start call1", "open", "act x", "change geni_start call2", "open")
}

// TestGap deletes changes that the audit has not written.
func TestGap(t *testing.T) {
	s := newSite(t)
	if err := s.log.Start("example.org"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.commit()
	}
	if err := s.store.PruneChanges(t.Context(), store.ChangeLimits{Number: 2}); err != nil {
		t.Fatal(err)
	}
	s.follow()
	s.wants("open", "start", "told", "gap", "change geni_start call4", "change geni_start call5", "told")
	if l := s.lines()[3]; l.Lost != 3 {
		t.Errorf("the gap is %+v", l)
	}
}

// fill loses so many lines of acts while none can be written.
func (s *site) fill(lost int) {
	for s.log.lost < lost {
		s.log.Act(Act{What: "much", Text: strings.Repeat("x", maxOutput)})
	}
}

func TestUnwritableAuditIsReportedAndRetried(t *testing.T) {
	s := newSite(t)
	s.path = filepath.Join(s.dir, "sub", "audit.log")
	s.log.path = s.path // whose folder is not there
	s.answered("call1")
	s.commit()
	s.follow() // the change waits in the store
	if err := s.log.Err(); err == nil || !strings.Contains(err.Error(), "1 lines wait and 0 are lost") {
		t.Errorf("Err of an audit whose folder is gone: %v", err)
	}
	if err := s.log.Admit(); am.CodeOf(err) != am.ServerError || strings.Contains(err.Error(), s.dir) {
		t.Errorf("Admit: %v", err)
	}
	s.fill(11)
	waiting := s.log.waiting.lines
	s.answered("call2") // finds no room
	if _, n := s.log.Lines(); n != int64(waiting)+12 || s.log.waiting.lines != waiting || waiting < 1000 {
		t.Errorf("%d lines unwritten, %d kept", n, waiting)
	}
	if err := os.Mkdir(filepath.Dir(s.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Admit(); err != nil {
		t.Errorf("Admit when it can be written again: %v", err)
	}
	if err := s.log.Err(); err != nil {
		t.Error(err)
	}
	got := s.shortLines() // of the second place
	if n := len(got); n != waiting+3 || got[0] != "open" || got[1] != "call call1" || got[n-2] != "lost" || got[n-1] != "change geni_start call1" {
		t.Errorf("%d lines: %q … %q", n, got[:3], got[n-2:])
	}
	if l := s.lines()[len(got)-2]; l.Lost != 12 {
		t.Errorf("%d lines are reported as lost, want 12", l.Lost)
	}
}

func TestSilentAuditWritesAlive(t *testing.T) {
	s := newSite(t)
	s.log.Act(Act{What: "x"})
	s.now = s.now.Add(silence - time.Second)
	s.log.maintain()
	s.wants("open", "act x")
	s.now = s.now.Add(time.Second)
	s.log.maintain()
	s.log.maintain()
	s.wants("open", "act x", "alive")
}

func TestHoldingsOfSliversAreWritten(t *testing.T) {
	s := newSite(t)
	sliver := func(n string, o am.Observed) am.Sliver {
		return am.Sliver{URN: name("sliver", n), Slice: name("slice", "s"), Creator: name("user", "alice"), Speaker: name("tool", "portal"), Component: name("node", "pc1"), Request: "call1", Observed: o}
	}
	put := func(x am.Sliver) { s.change(func(cs *store.ChangeSet) { cs.PutSliver(x) }) }
	drop := func(n string) { s.change(func(cs *store.ChangeSet) { cs.Remove(store.SliverKey(name("sliver", n))) }) }
	if err := s.log.Start("example.org"); err != nil {
		t.Fatal(err)
	}
	public := sliver("A", am.Observed{})
	public.PublicAddress = netip.MustParseAddr("192.0.2.10")
	put(public)
	put(sliver("b", am.Observed{}))
	put(sliver("b", am.Observed{Addresses: []string{"10.0.0.1"}, Logins: []string{"alice@Gate.example.org:2001", "bob@gate.example.org:2001"}}))
	put(sliver("b", am.Observed{Addresses: []string{"10.0.0.1"}, Logins: []string{"alice@gate.example.org:2001"}, Message: "busy"}))
	put(sliver("b", am.Observed{Addresses: []string{"10.0.0.1"}, Outside: []string{"198.51.100.7:40000-40127"}}))
	again, err := disk.Refuse(filepath.Join(s.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	s.refused = true
	put(sliver("b", am.Observed{}))
	drop("A")
	if err := again(); err != nil {
		t.Fatal(err)
	}
	s.refused = false
	drop("b")
	drop("b")
	put(sliver("c", am.Observed{Addresses: []string{"10.0.0.2"}}))
	put(sliver("c", am.Observed{}))
	s.follow()
	s.wants("open", "start", "told", "holds call1 sliver+A 192.0.2.10", "holds call1 sliver+b 10.0.0.1 gate.example.org:2001", "holds call1 sliver+b 10.0.0.1 198.51.100.7:40000-40127",
		"gone sliver+b", "holds call1 sliver+c 10.0.0.2", "gone sliver+c")
	l := s.lines()[3]
	if l.Slice != name("slice", "s").String() || l.User != name("user", "alice").String() || l.Speaker != name("tool", "portal").String() ||
		l.Component != name("node", "pc1").String() || l.Request != "call1" {
		t.Errorf("the line of a sliver is %+v", l)
	}
	before := len(s.shortLines())
	s.crash()
	if err := s.log.Start("example.org"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"start", "holds call1 sliver+A 192.0.2.10 again", "told"}, s.shortLines()[before:]); diff != "" {
		t.Errorf("after a crash (-want +got):\n%s", diff)
	}
}

// TestNewAuditBelongsToItsFolder has root create an audit that the site's user must be able
// to write.
func TestNewAuditBelongsToItsFolder(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, 12345, 23456)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	for range 2 {
		if err := Note(path, Act{What: "lockdown", Operator: "root"}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if o := info.Sys().(*syscall.Stat_t); o.Uid != 12345 || o.Gid != 23456 || info.Mode().Perm() != 0o600 {
		t.Errorf("it belongs to %d:%d, mode %v", o.Uid, o.Gid, info.Mode())
	}
}
