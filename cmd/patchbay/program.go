package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findProgram is the absolute path of one of our own programs: beside this one,
// or else on the PATH.
func findProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program (%s) nor on the PATH; build both with: make build", name, filepath.Dir(self))
	}
	return filepath.Abs(path)
}

// program is how this program was called, for commands that run as printed.
var program = os.Args[0]

// ourCommand is a command line of this program that a person may copy.
func ourCommand(args ...string) string { return shellLine(append([]string{program}, args...)) }

// commandAt is the same about the site whose configuration is file.
func commandAt(file string, args ...string) string {
	return ourCommand(append(args, "--config", file)...)
}

// shellLine quotes words for a command line.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

// shellWord quotes s for a command line that a person may copy.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:=+,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
