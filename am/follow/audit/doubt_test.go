package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
)

// who returns the slivers at 192.0.2.1, with ? where the answer is uncertain.
func (h history) who(at time.Time) (string, *Answer) {
	h.t.Helper()
	files, err := Files(h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	p, err := ParsePlace("192.0.2.1")
	if err != nil {
		h.t.Fatal(err)
	}
	a, err := Who(files, p, at)
	if err != nil {
		h.t.Fatal(err)
	}
	var all []string
	for _, x := range a.Holders {
		s := strings.TrimPrefix(x.Sliver, "urn:publicid:IDN+example.org+sliver+")
		if x.Maybe {
			s += "?"
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return strings.Join(all, " "), a
}

func (h history) wantsAt(minute int, want string) *Answer {
	h.t.Helper()
	got, a := h.who(noon.Add(time.Duration(minute) * time.Minute))
	if got != want {
		h.t.Errorf("at minute %d: %q, want %q", minute, got, want)
	}
	return a
}

var one = am.Observed{Addresses: []string{"192.0.2.1"}}

// TestLateLinesHaveTheTimeOfTheChange ends and begins holdings while the audit cannot be written.
func TestLateLinesHaveTheTimeOfTheChange(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.at(10).holds("A", one)
	h.holds("C", one)
	path := h.log.path
	h.log.path = path + "/none/audit.log"
	h.fill(1)
	h.at(20).gone("A")
	h.at(30).holds("B", one)
	h.log.path = path
	h.at(60).log.maintain()
	lines := h.shortLines()
	want := []string{
		"lost", "gone sliver+A", "holds reserve-B sliver+B 192.0.2.1",
		"holds reserve-B sliver+B 192.0.2.1 again", "holds reserve-C sliver+C 192.0.2.1 again", "told",
	}
	got := lines[len(lines)-len(want):]
	if !slices.Equal(got, want) {
		t.Errorf("it ends with %q, want %q", got, want)
	}
	h.log.maintain()
	if n := len(h.shortLines()); n != len(lines) {
		t.Errorf("%d lines more, with nothing lost", n-len(lines))
	}
	h.at(70).log.Act(Act{What: "x"})
	h.wantsAt(9, "")
	h.wantsAt(25, "C")
	h.wantsAt(35, "B C")
	h.wantsAt(65, "B C")
}

// TestEachFileHasTheHoldings deletes the older files.
func TestEachFileHasTheHoldings(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.at(10).holds("A", one)
	h.at(20).holds("B", am.Observed{Addresses: []string{"192.0.2.2"}})
	if err := os.Rename(h.path, h.path+".1"); err != nil {
		t.Fatal(err)
	}
	h.at(30).log.Act(Act{What: "x"})
	h.log.maintain()
	h.at(40).gone("B")
	h.at(50).log.Act(Act{What: "x"})
	h.wantsAt(15, "A")
	if err := os.Remove(h.path + ".1"); err != nil {
		t.Fatal(err)
	}
	h.wantsAt(9, "")
	h.wantsAt(15, "A")
	h.wantsAt(45, "A")
}

// TestFilesBesideTheAudit puts a folder, a pipe and a copy beside the audit.
func TestFilesBesideTheAudit(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.at(10).holds("A", one)
	h.at(20).gone("A")
	if err := os.Mkdir(h.path+".old", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.path+".pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path+".bak", text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.at(30).holds("B", one)
	h.wantsAt(15, "A")
	h.wantsAt(30, "B")
	if files, err := Files(h.path); err != nil || len(files) != 2 || filepath.Ext(files[0]) != ".bak" {
		t.Errorf("files %q, %v", files, err)
	}
	if _, err := InOrder([]string{h.path + ".pipe"}); err == nil || !strings.Contains(err.Error(), ".pipe is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

// TestAsIsOfThatTime asks without a port for a sliver whose ports change.
func TestAsIsOfThatTime(t *testing.T) {
	h := history{newSite(t)}
	h.start()
	h.at(10).holds("A", am.Observed{Logins: []string{"192.0.2.1:2001"}})
	h.at(20).holds("A", am.Observed{Logins: []string{"192.0.2.1:2002"}})
	for minute, want := range map[int]string{15: "192.0.2.1:2001", 25: "192.0.2.1:2002"} {
		if a := h.wantsAt(minute, "A"); len(a.Holders) == 1 && !slices.Equal(a.Holders[0].As, []string{want}) {
			t.Errorf("at minute %d as %q, want %s", minute, a.Holders[0].As, want)
		}
	}
}

// TestWhoCoversTheWholeSecond asks for a second in which one sliver ends and another begins.
func TestWhoCoversTheWholeSecond(t *testing.T) {
	h := history{newSite(t)}
	h.start().holds("A", one)
	end := noon.Add(time.Minute)
	h.now = end.Add(300 * time.Millisecond)
	h.gone("A")
	h.now = end.Add(700 * time.Millisecond)
	h.holds("B", one)
	for at, want := range map[time.Time]string{
		end: "A B", end.Add(time.Millisecond): "A", end.Add(500 * time.Millisecond): "", end.Add(800 * time.Millisecond): "B", end.Add(-time.Second): "A", end.Add(time.Second): "B",
	} {
		if got, _ := h.who(at); got != want {
			t.Errorf("at %s: %q, want %q", at, got, want)
		}
	}
}
