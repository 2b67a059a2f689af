package display

import (
	"os"
	"path/filepath"
)

// AsRoot is a command line for root, as this user types it, who may have called sudo.
func AsRoot(words ...string) string {
	if uid := os.Getenv("SUDO_UID"); os.Geteuid() != 0 || uid != "" && uid != "0" {
		words = append([]string{"sudo"}, words...)
	}
	return ShellLine(words)
}

// Program is how this program was called, for commands that run as printed.
var Program = os.Args[0]

// Command is a command line of this program that a person may copy.
func Command(args ...string) string { return ShellLine(append([]string{Program}, args...)) }

// ConfigName is the file name of a site's configuration, unless the operator chose another.
const ConfigName = "patchbay.yaml"

// CommandAt is the same about the site whose configuration is file. It names the folder
// where that is enough.
func CommandAt(file string, args ...string) string {
	if filepath.Base(file) == ConfigName {
		file = filepath.Dir(file)
	}
	return Command(append(args, "--config", file)...)
}
