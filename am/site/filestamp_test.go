package site

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

func TestStampChangesWithTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	edited := time.Now().Add(-time.Hour)
	last := stampOf(file)
	for _, step := range []struct {
		rule string
		do   func()
	}{
		{"it is there", func() { must(os.WriteFile(file, []byte("one"), 0o600)) }},
		{"its time is set", func() { must(os.Chtimes(file, edited, edited)) }},
		{"as long as before, and its time set back", func() {
			// As soon as the clock of the file system has advanced.
			wait.Until(t, "a later time", func() bool {
				must(os.WriteFile(file, []byte("two"), 0o600))
				must(os.Chtimes(file, edited, edited))
				return stampOf(file) != last
			})
		}},
		{"its mode is another", func() {
			wait.Until(t, "a later time", func() bool {
				must(os.Chmod(file, 0o644))
				return stampOf(file) != last
			})
		}},
		{"a link that leads nowhere", func() { must(os.Remove(file)); must(os.Symlink("gone", file)) }},
		{"nothing", func() { must(os.Remove(file)) }},
	} {
		step.do()
		now := stampOf(file)
		if now == last {
			t.Errorf("%s: the stamp is the same: %+v", step.rule, now)
		}
		last = now
	}
	if last != (fileStamp{}) {
		t.Errorf("of nothing it is %+v", last)
	}
}

func TestUpkeepIsWaitedForNoLongerThanAsked(t *testing.T) {
	u := newMaintenanceFile(filepath.Join(t.TempDir(), "maintenance.yaml"), nil, nil, nil, nil)
	done, err := u.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.state(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
