package audit

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// history is a site whose audit is written at times in minutes after noon.
type history struct{ *site }

func (h history) at(minute int) history {
	h.now = noon.Add(time.Duration(minute) * time.Minute)
	return h
}

func (h history) start() history {
	h.t.Helper()
	if err := h.log.Start("example.org"); err != nil {
		h.t.Fatal(err)
	}
	return h
}

func (h history) holds(sliver string, o am.Observed) history {
	h.change(func(cs *store.ChangeSet) {
		cs.PutSliver(am.Sliver{
			URN: name("sliver", sliver), Slice: name("slice", "of-"+sliver), Creator: name("user", "u-"+sliver),
			Component: name("node", "pc1"), Request: "reserve-" + sliver, Observed: o,
		})
	})
	h.follow()
	return h
}

func (h history) gone(sliver string) history {
	h.change(func(cs *store.ChangeSet) { cs.Remove(store.SliverKey(name("sliver", sliver))) })
	h.follow()
	return h
}

// move moves the audit away and compresses it if the name ends so.
func (h history) move(to string) history {
	h.t.Helper()
	to = filepath.Join(h.dir, to)
	if err := os.Rename(h.path, to); err != nil {
		h.t.Fatal(err)
	}
	if !strings.HasSuffix(to, ".gz") {
		return h
	}
	text, err := os.ReadFile(to)
	if err != nil {
		h.t.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	if _, err := z.Write(text); err != nil {
		h.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// TestWho asks for places and times in one history of three files and a crash.
func TestWho(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.at(10).holds("a", am.Observed{Addresses: []string{"192.0.2.1"}, Logins: []string{"gate.example.org:2001"}})
	h.log.Call(Call{ID: "reserve-a", Method: "Allocate", Caller: name("user", "u-a"), Credentials: []string{"f00d"}})
	h.at(20).gone("a")
	h.move("audit.log.2.gz")
	h.at(30).holds("b", am.Observed{Addresses: []string{"192.0.2.1", "2001:db8::1"}})
	h.at(40).holds("n1", am.Observed{Addresses: []string{"10.0.0.1"}, Outside: []string{"198.51.100.7:40000-40127"}, Logins: []string{"u@198.51.100.7:2001"}})
	h.holds("n2", am.Observed{Addresses: []string{"10.0.0.2"}, Outside: []string{"198.51.100.7:40128-40255"}})
	h.holds("n3", am.Observed{Outside: []string{"198.51.100.8"}})
	h.move("audit.log.1")
	h.at(50).holds("n1", am.Observed{Addresses: []string{"10.0.0.1"}, Outside: []string{"198.51.100.7:40000-40127"}}) // its login is gone
	h.at(60).gone("n1")
	h.log.Act(Act{What: "last sign of life"})
	h.crash()
	h.at(100).change(func(cs *store.ChangeSet) { cs.Remove(store.SliverKey(name("sliver", "b"))) })
	h.log.next = store.Position(h.store.Revision()+1, 0) // as if the line of the change was lost
	h.start()
	h.at(110).holds("c", am.Observed{Addresses: []string{"192.0.2.1"}})

	files, err := Files(h.path)
	if err != nil || len(files) != 3 || filepath.Base(files[0]) != "audit.log.2.gz" || filepath.Base(files[2]) != "audit.log" {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, c := range []struct {
		rule   string
		place  string
		minute int
		want   string // slivers, with ? where it is not sure; then before and after
		shared bool
	}{
		{"before anybody", "192.0.2.1", 9, "- after a", false},
		{"from the first moment", "192.0.2.1", 10, "a", false},
		{"an address holds all its ports", "192.0.2.1:80", 15, "a", false},
		{"not at the last moment", "192.0.2.1", 20, "- before a after b", false},
		{"the next one", "192.0.2.1", 30, "b", false},
		{"its other address, however written", "[2001:db8:0::1]:443", 35, "b", false},
		{"an IPv4 address written as IPv6", "::ffff:192.0.2.1", 35, "b", false},
		{"a repeated line is not lost", "10.0.0.2", 105, "n2", false},
		{"while it was seen", "192.0.2.1", 59, "b", false},
		{"between the last sign of life and the start", "192.0.2.1", 80, "b?", false},
		{"after the start it is gone", "192.0.2.1", 105, "- before b after c", false},
		{"held still", "192.0.2.1", 115, "c", false},
		{"long after the end of the audit", "192.0.2.1", 1000, "c?", false},
		{"a door by name", "GATE.example.org:2001", 15, "a", false},
		{"a host without a port", "gate.example.org", 15, "a", false},
		{"another door", "gate.example.org:2002", 15, "-", false},
		{"a port outside", "198.51.100.7:40127", 45, "n1", false},
		{"the next port outside", "198.51.100.7:40128", 45, "n2", false},
		{"a port of nobody", "198.51.100.7:40256", 45, "-", false},
		{"a door by address", "198.51.100.7:2001", 45, "n1", false},
		{"a door that was closed", "198.51.100.7:2001", 55, "- before n1", false},
		{"other doors closed, the ports go on", "198.51.100.7:40127", 55, "n1", false},
		{"a shared address without a port", "198.51.100.7", 45, "n1 n2", true},
		{"of which one is left", "198.51.100.7", 70, "n2", false},
		{"an address outside without ports, any port", "198.51.100.8:9", 70, "n3", false},
		{"an address of nobody", "203.0.113.1", 45, "-", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p, err := ParsePlace(c.place)
			if err != nil {
				t.Fatal(err)
			}
			a, err := Who(files, p, noon.Add(time.Duration(c.minute)*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			short := func(h *Holder) string {
				s := strings.TrimPrefix(h.Sliver, "urn:publicid:IDN+example.org+sliver+")
				if !strings.HasSuffix(h.Slice, "of-"+s) || !strings.HasSuffix(h.User, "u-"+s) || h.Request != "reserve-"+s || len(h.As) == 0 {
					t.Errorf("%s has %+v", s, h)
				}
				if (h.Call != nil) != (s == "a") {
					t.Errorf("the call of %s: %+v", s, h.Call)
				}
				return s
			}
			var got []string
			for i := range a.Holders {
				s := short(&a.Holders[i])
				if a.Holders[i].Maybe {
					s += "?"
				}
				got = append(got, s)
			}
			if len(got) == 0 {
				got = append(got, "-")
			}
			if a.Before != nil {
				got = append(got, "before", short(a.Before))
			}
			if a.After != nil {
				got = append(got, "after", short(a.After))
			}
			if text := strings.Join(got, " "); text != c.want || a.Shared != c.shared {
				t.Errorf("%s, shared %v; want %s, %v", text, a.Shared, c.want, c.shared)
			}
			if !a.From.Equal(noon) || !a.To.Equal(noon.Add(110*time.Minute)) {
				t.Errorf("it covers %s to %s", a.From, a.To)
			}
		})
	}
	p, _ := ParsePlace("192.0.2.1")
	a, err := Who(files, p, noon.Add(80*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if x := a.Holders[0]; !x.Seen.Equal(noon.Add(time.Hour)) || !x.Until.Equal(noon.Add(100*time.Minute)) {
		t.Errorf("it ended between %s and %s, want 13:00 and 13:40", x.Seen, x.Until)
	}
}

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:22": "192.0.2.1:22", "2001:db8::1": "2001:db8::1", "[2001:db8::1]": "2001:db8::1",
		"[2001:db8::1]:22": "[2001:db8::1]:22", "Gate.Example.org": "gate.example.org", "gate.example.org:1": "gate.example.org:1",
		"": "", "192.0.2.1:0": "", "192.0.2.1:65536": "", "192.0.2.1:ssh": "", "a b": "", "a/b:1": "", ":22": "", "[::1": "", "192.0.2.1:-1": "", "x\n": "",
	} {
		got, err := ParsePlace(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("ParsePlace(%q) is %s, %v; want %q", text, got, err, want)
		}
	}
}

// TestWhoSkipsOtherText reads files that contain other text than lines.
func TestWhoSkipsOtherText(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.holds("a", am.Observed{Addresses: []string{"192.0.2.1"}})
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "\x00\x00\n{}\n%s\n{\"at\":\"2026-11-20T12:00:00.000Z\",\"event\":\"gone\",\"sliver\":7}\n{\"at\":\"2026-11-20T12:00:0", strings.Repeat("x", 3<<20))
	f.Close()
	h.at(10).log.Act(Act{What: "x"})
	p, _ := ParsePlace("192.0.2.1")
	a, err := Who([]string{h.path}, p, noon.Add(5*time.Minute))
	if err != nil || len(a.Holders) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	h.crash()
	if l := h.lines(); l[len(l)-1].Event == eventOpen {
		t.Error("a crash has it begin again")
	}
	if err := os.WriteFile(h.path+".3", []byte("\xfd7zXZ\x00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(h.path); err == nil || !strings.Contains(err.Error(), "unpack it") {
		t.Errorf("a file of another compression: %v", err)
	}
}

// FuzzWho reads any text as an audit.
func FuzzWho(f *testing.F) {
	f.Add([]byte(`{"at":"2026-11-20T12:00:00.000Z","event":"holds","sliver":"urn:publicid:IDN+example.org+sliver+a","addresses":["192.0.2.1"],"doors":["192.0.2.1:22"],"outside":["192.0.2.1:1-9"]}
{"at":"2026-11-20T12:00:01.000Z","event":"start","settled":1,"seen":1}
{"at":"2026-11-20T12:00:02.000Z","event":"told","settled":1,"seen":1}
{"at":"2026-11-20T12:00:03.000Z","event":"call","id":"x","journal":["0000000000000001-0000"],"settled":1,"seen":2}
`), "192.0.2.1:7", int64(1))
	file := filepath.Join(quickDir(f), "audit.log")
	f.Fuzz(func(t *testing.T, text []byte, place string, after int64) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := ParsePlace(place)
		if err != nil {
			return
		}
		a, err := Who([]string{file}, p, noon.Add(time.Duration(after)))
		if err == nil {
			for _, h := range a.Holders {
				if h.Maybe {
					continue
				}
				if h.Since.After(a.At.Add(time.Second)) || !h.Until.IsZero() && !h.Until.After(a.At) {
					t.Errorf("%+v holds nothing at %s", h, a.At)
				}
			}
		}
		if _, err := readEnd(file, true); err != nil {
			t.Error(err)
		}
	})
}

// TestOlderLine reads a line with the names of fields of schema 4.
func TestOlderLine(t *testing.T) {
	l, ok := decode([]byte(`{"at":"2026-11-20T12:00:00.000Z","event":"holds","doors":["192.0.2.1:22"]}`))
	if !ok || len(l.Endpoints) != 1 || l.Endpoints[0] != "192.0.2.1:22" || strings.Contains(string(l.encode()), "doors") {
		t.Errorf("%+v", l)
	}
}
