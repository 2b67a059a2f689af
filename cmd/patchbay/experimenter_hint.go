package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/suggest"
)

// suggestNames returns "did you mean x? Or ", or "there are x, y; or ", or "" if no names
// exist.
func suggestNames(want string, have []string) string {
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

// optionWarnings returns a warning for each --option that the method does not have. A name
// without geni_ that resembles no option gets no warning: it may be an option of other
// software.
func (r *callRequest) optionWarnings() (list []string) {
	sh, ok := shapes[r.api][r.method]
	known := append(strings.Fields(sh.options), "geni_speaking_for")
	for _, o := range r.options {
		name, _, _ := strings.Cut(o, "=")
		near := suggest.Word(name, known)
		if !ok || near == name || near == "" && !strings.HasPrefix(name, "geni_") {
			continue
		}
		text := fmt.Sprintf("warning  %s has no option %s", r.method, name)
		if near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		list = append(list, text)
	}
	return list
}

// userNamesIn returns the users, or tools, with a folder in dir.
func userNamesIn(dir string) []string {
	return namesOf(dir, "*/*-cert.pem", "-cert.pem")
}

// slicesIn returns the slices with a credential in a user's or tool's folder.
func slicesIn(dir string) []string {
	return namesOf(filepath.Join(dir, slicesDir), "*-cred.xml", "-cred.xml")
}

// namesOf returns the sorted names of the files of a folder that match a pattern, without folder and
// suffix.
func namesOf(dir, pattern, suffix string) (names []string) {
	for _, f := range globbed(dir, pattern) {
		names = append(names, strings.TrimSuffix(filepath.Base(f), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
