package main

import (
	"testing"
)

// lockable is a site with a user and a slice, and calls to it.
func lockable(t *testing.T) (dir string, site func(args ...string) (int, string)) {
	t.Helper()
	dir = prepared(t, annAndFirst...)
	return dir, func(args ...string) (int, string) { return tell(t, append(args, "--config", dir)...) }
}

// annAndFirst make a user and her slice.
var annAndFirst = [][]string{{"user", "ann"}, {"slice", "first", "--owner", "ann"}}
