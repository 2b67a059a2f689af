package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/suggest"
)

// instead says which of the names that there are was perhaps meant, as the
// first half of a remedy: "did you mean x? Or ", "there are x, y; or ", or
// nothing.
func instead(want string, have []string) string {
	const most = 10
	if near := suggest.Word(want, have); near != "" {
		return fmt.Sprintf("did you mean %s? Or ", near)
	}
	switch more := len(have) - most; {
	case len(have) == 0:
		return ""
	case len(have) == 1:
		return fmt.Sprintf("there is only %s; or ", have[0])
	case more > 0:
		return fmt.Sprintf("there are %s and %d more; or ", strings.Join(have[:most], ", "), more)
	}
	return fmt.Sprintf("there are %s; or ", strings.Join(have, ", "))
}

// folksIn names the users, or tools, whose folders lie in dir.
func folksIn(dir string) []string { return namesOf(filepath.Join(dir, "*", "*-cert.pem"), "-cert.pem") }

// slicesIn names the slices for which the user or tool of a folder has a
// credential.
func slicesIn(dir string) []string {
	return namesOf(filepath.Join(dir, slicesDir, "*-cred.xml"), "-cred.xml")
}

func namesOf(pattern, suffix string) (names []string) {
	files, _ := filepath.Glob(pattern) // a folder with odd signs in its name has no hints
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
