package display

import (
	"os"
	"path/filepath"
)

// AsRoot returns a command line that runs as root. It begins with sudo if the process does
// not run as root, or if another user than root started it with sudo.
func AsRoot(words ...string) string {
	if uid := os.Getenv("SUDO_UID"); os.Geteuid() != 0 || uid != "" && uid != "0" {
		words = append([]string{"sudo"}, words...)
	}
	return ShellLine(words)
}

// Program is the name by which this program was called, so that printed commands run
// unchanged.
var Program = os.Args[0]

// Command returns a command line of this program, for a person to copy.
func Command(args ...string) string { return ShellLine(append([]string{Program}, args...)) }

// ConfigName is the file name of a site's configuration, unless the operator chose another.
const ConfigName = "patchbay.yaml"

// CommandAt returns a command line like Command, for the site whose configuration is file.
// --config names only the site's folder if the file has the usual name.
func CommandAt(file string, args ...string) string {
	if filepath.Base(file) == ConfigName {
		file = filepath.Dir(file)
	}
	return Command(append(args, "--config", file)...)
}
