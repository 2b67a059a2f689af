package clock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// written is what a file holds that says r, whether that makes sense or not.
func written(t testing.TB, r record) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBrokenFileIsToldAndIgnored(t *testing.T) {
	kept := record{Site: noon, Host: noon, Boot: "b", Steady: 1}
	but := func(change func(*record)) string {
		r := kept
		change(&r)
		return written(t, r)
	}
	good := written(t, kept)
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for rule, text := range map[string]string{
		"empty":                    "",
		"cut":                      good[:40],
		"zeroes":                   strings.Repeat("\x00", 100),
		"something behind":         good + good,
		"another year":             strings.Replace(good, "2026", "2126", 1),
		"unknown doubt":            but(func(r *record) { r.Doubt = "x" }),
		"no time":                  but(func(r *record) { r.Site, r.Host = time.Time{}, time.Time{} }),
		"a time that is no time":   but(func(r *record) { r.Site, r.Host = noon.AddDate(7000, 0, 0), noon.AddDate(7000, 0, 0) }),
		"no doubt, and two times":  but(func(r *record) { r.Site = noon.Add(1) }),
		"written before its boot":  but(func(r *record) { r.Steady = -1 }),
		"large":                    strings.Repeat(" ", maxFile) + good,
		"a list":                   "[]",
		"a number for the boot":    strings.Replace(good, `"b"`, "1", 1),
		"more than a number holds": strings.Replace(good, `"steady_ns":1`, `"steady_ns":99999999999999999999`, 1),
	} {
		t.Run(rule, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "clock.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			f := &fake{boot: "b", wall: noon, steady: hour}
			c, err := Open(Options{File: file, Log: slog.New(slog.NewTextHandler(&log, nil)), Host: f.host()})
			if err != nil {
				t.Fatal(err)
			}
			if s := c.State(); !s.Site.Equal(noon) || s.Doubt != NoDoubt || !strings.Contains(s.Lost, file+" is broken") {
				t.Errorf("%+v", s)
			}
			if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), file) {
				t.Errorf("the log says %q", log.String())
			}
			if err := c.Save(); err != nil {
				t.Fatal(err)
			}
			if err := Check(file); err != nil {
				t.Errorf("it is not mended: %v", err)
			}
		})
	}
}

// TestDoubtOfAnEarlierVersion reads the two words by which Booted was called.
func TestDoubtOfAnEarlierVersion(t *testing.T) {
	for _, word := range []Doubt{"behind", "settling"} {
		if r, err := parse([]byte(written(t, record{Site: noon, Host: noon.Add(hour), Doubt: word}))); err != nil || r.Doubt != Booted {
			t.Errorf("%q is read as %q, %v", word, r.Doubt, err)
		}
	}
}

// TestWhatIsNoFileIsRefused and is not waited for.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	f := &fake{boot: "b", wall: noon, steady: hour}
	for rule, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		t.Run(rule, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "clock.json")
			if err := put(file); err != nil {
				t.Fatal(err)
			}
			if err := Check(file); err == nil {
				t.Error("Check says nothing")
			}
			_, err := Open(Options{File: file, Log: quiet, Host: f.host()})
			if err == nil || !strings.Contains(err.Error(), file+" is not a regular file") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAFileThatCannotBeOpenedIsAnError(t *testing.T) {
	f := &fake{boot: "b", wall: noon, steady: hour}
	if _, err := Open(Options{File: filepath.Join(t.TempDir(), "\x00"), Log: quiet, Host: f.host()}); err == nil {
		t.Error("opened")
	}
}

func TestSaveIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "clock.json")
	f := &fake{boot: "b", wall: noon, steady: hour}
	c := open(t, f, file)
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.passes(hour)
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil || bytes.Equal(before, after) {
		t.Errorf("%v: %s", err, after)
	}
	// Where the next cannot be written, nothing is left behind.
	if err := errors.Join(os.Remove(file), os.MkdirAll(file+"/full", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(); err == nil || !strings.Contains(err.Error(), "let the server write into "+dir) {
		t.Errorf("error %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
}

// lines is a log that can be read meanwhile.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take gives what was logged since it was last asked.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func TestRunTellsAndKeeps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock.json")
	synctest.Test(t, func(t *testing.T) {
		var log lines
		var mu sync.Mutex
		begun, ahead := time.Now(), time.Duration(0)
		host := Host{Boot: "b", Synced: func() bool { return false }, Read: func() (time.Time, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead), time.Since(begun) + hour
		}}
		jump := func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ahead += d
		}
		c, err := Open(Options{File: file, Log: slog.New(slog.NewTextHandler(&log, nil)), Host: host})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.Run(ctx); close(ended) }()
		// said waits for d and checks what was logged and written.
		said := func(d time.Duration, doubt Doubt, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			text := log.take()
			if len(want) == 0 && text != "" {
				t.Errorf("the log says %s", text)
			}
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("the log says %q, not %q", text, w)
				}
			}
			r, err := load(file)
			if err != nil || r.Doubt != doubt || time.Since(begun)+hour-r.Steady > saveInterval {
				t.Errorf("written is %+v, %v", r, err)
			}
		}
		said(0, NoDoubt)
		said(10*time.Minute, NoDoubt)
		jump(year)
		said(2*time.Second, Jumped, "level=ERROR", "was set, and is not trusted")
		said(50*time.Minute, Jumped)
		said(11*time.Minute, Jumped, "was set, and is not trusted")
		c.Trust()
		said(0, NoDoubt, "follow the host's clock again")
		jump(-hour)
		said(2*time.Second, Jumped, "level=ERROR")
		jump(hour)
		said(2*time.Second, NoDoubt, "follow the host's clock again")
		time.Sleep(30 * time.Second)
		cancel()
		<-ended
		if r, err := load(file); err != nil || r.Steady != time.Since(begun)+hour {
			t.Errorf("at the end %+v is written, %v", r, err)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(written(f, record{Site: noon, Host: noon.Add(hour), Boot: "b", Steady: 1, Doubt: Jumped, Since: noon})))
	f.Add([]byte(`{"site":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"site":"2026-03-01T12:00:00-23:59","host":"9999-12-31T23:59:59-23:59"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		host := &fake{boot: r.Boot, wall: noon, steady: hour}
		c := &Clock{opt: Options{Host: host.host(), Jump: DefaultJump}, changed: make(chan struct{}, 1)}
		c.boot(r, noon, hour)
		c.Now()
	})
}

// A command that believes the clock and Run both write the file, at one time.
func TestSavesAtOneTime(t *testing.T) {
	f := &fake{wall: time.Now(), steady: time.Hour, boot: "one"}
	c := open(t, f, filepath.Join(t.TempDir(), "clock.json"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := c.Save(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
