package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/clock"
)

// advanceClock moves the stored time of a site's clock into the future, so that the
// host's clock is behind it after a boot.
func advanceClock(t testing.TB, dir, text string) {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(d)
	if err := os.Remove(filepath.Join(dir, "clock.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c, err := clock.Open(clock.Options{Host: clock.Host{
		Boot: "another", Read: func() (time.Time, time.Duration) { return then, 1 }, Synced: func() bool { return false },
	}, File: filepath.Join(dir, "clock.json")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}
