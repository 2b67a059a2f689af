package agent

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	maxArguments  = 1024
	maxVariables  = 256
	argumentLimit = 128<<10 - 1 // bytes of an argument; the kernel's own limit
)

const (
	userPath = "/usr/local/bin:/usr/bin:/bin:/usr/games"
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// commandLine returns the program, arguments and environment of a command of the account: the SFTP server,
// this executable, a program, a line for the account's shell, or else a login shell. It refuses a relative
// path, and too many or too long arguments and variables.
func commandLine(cmd Command, user account) (path string, argv, env []string, err error) {
	name := filepath.Base(user.shell)
	switch {
	case cmd.SFTP:
		path, argv = "/proc/self/exe", []string{Argv0, argSFTP}
	case len(cmd.Self) > 0:
		path, argv = "/proc/self/exe", cmd.Self
	case len(cmd.Argv) > 0:
		path, argv = cmd.Argv[0], cmd.Argv
	case cmd.Line != "":
		path, argv = user.shell, []string{name, "-c", cmd.Line}
	default:
		path, argv = user.shell, []string{"-" + name}
	}
	if !filepath.IsAbs(path) {
		return "", nil, nil, fmt.Errorf("the program %q has no absolute path", printable(path))
	}
	if len(argv) > maxArguments || len(cmd.Env) > maxVariables {
		return "", nil, nil, fmt.Errorf("a command can have at most %d arguments and %d variables", maxArguments, maxVariables)
	}
	for _, word := range argv {
		if len(word) > argumentLimit || strings.ContainsRune(word, 0) {
			return "", nil, nil, fmt.Errorf("an argument of the command is longer than %d bytes or contains a zero byte", argumentLimit)
		}
	}
	if env, err = environment(cmd, user); err != nil {
		return "", nil, nil, err
	}
	return path, argv, env, nil
}

func environment(cmd Command, user account) ([]string, error) {
	search := userPath
	if user.uid == 0 {
		search = rootPath
	}
	env := []string{
		"HOME=" + user.home, "USER=" + user.name, "LOGNAME=" + user.name, "SHELL=" + user.shell,
		"PATH=" + search, "LANG=C.UTF-8",
	}
	if cmd.Terminal != nil {
		env = append(env, "TERM="+termName(cmd.Terminal.Name))
	}
	for _, v := range cmd.Env {
		name, _, ok := strings.Cut(v, "=")
		if !ok || !isVariable(name) || len(v) > argumentLimit || strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("%q is not an environment variable of the form NAME=value", printable(v))
		}
		env = setVariable(env, name, v)
	}
	return env, nil
}

func setVariable(env []string, name, text string) []string {
	for i := range env {
		if strings.HasPrefix(env[i], name+"=") {
			env[i] = text
			return env
		}
	}
	return append(env, text)
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r|0x20 < 'a' || r|0x20 > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
