package display

import "os"

// AsRoot is a command line for root, as this user types it.
func AsRoot(words ...string) string {
	if os.Geteuid() != 0 {
		words = append([]string{"sudo"}, words...)
	}
	return ShellLine(words)
}

// Program is how this program was called, for commands that run as printed.
var Program = os.Args[0]

// Command is a command line of this program that a person may copy.
func Command(args ...string) string { return ShellLine(append([]string{Program}, args...)) }

// CommandAt is the same about the site whose configuration is file.
func CommandAt(file string, args ...string) string {
	return Command(append(args, "--config", file)...)
}
