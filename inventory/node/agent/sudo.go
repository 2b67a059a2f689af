package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SudoName is the name of the command that gives accounts the rights of root. Its file beside
// the agent's executable is setuid root. So the kernel grants the rights, and the command
// keeps the caller's terminal, process group, limits and files.
const SudoName = "sudo"

// sudo executes a command as another user, without a password. Only root, accounts of the experiment, and
// accounts to which the root of the node gave all rights in sudoers may use it. It returns only if it
// executed nothing.
func sudo(args []string) error {
	o, err := parseSudo(args)
	if err != nil || o.isNoop {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("it is not setuid root here: nodes run it as /usr/local/bin/sudo")
	}
	caller, err := sudoAccount(uint32(os.Getuid()))
	if err != nil {
		return err
	}
	target, err := o.target()
	if err != nil {
		return err
	}
	path, argv, dir, err := o.program(caller, target)
	if err != nil {
		return err
	}
	env := o.environment(os.Environ(), caller, target, argv)
	if err := errors.Join(
		syscall.Setgroups(groupList(target)), syscall.Setresgid(int(target.gid), int(target.gid), int(target.gid)),
		syscall.Setresuid(int(target.uid), int(target.uid), int(target.uid)),
	); err != nil {
		return fmt.Errorf("cannot become %s: %w", target.name, err)
	}
	if dir != "" {
		_ = os.Chdir(dir) // a login without a home stays in the current folder
	}
	err = syscall.Exec(path, argv, env)
	if errors.Is(err, unix.ENOEXEC) { // a script without #!
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), env)
	}
	return fmt.Errorf("unable to execute %s: %w", path, err)
}

func groupList(user account) []int {
	list := []int{int(user.gid)}
	for _, g := range user.groups {
		list = append(list, int(g))
	}
	return list
}

// sudoAccount returns the account of a user id. It fails unless that is root, an account of the experiment,
// also with another user id that the root of the node gave it, or in sudoers.
func sudoAccount(uid uint32) (account, error) {
	user, err := accountOf(uid)
	if uid == 0 {
		return user, nil // root need not be listed in the image's files
	}
	if err != nil {
		return account{}, err
	}
	text, err := readFile(recordsFile, fileLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, err
	}
	for _, r := range parseRecords(text) {
		if r.login == user.name && !r.removed {
			return user, nil
		}
	}
	group, _ := readFile(groupFile, fileLimit)
	files, _ := filepath.Glob(sudoersFolder + "/*")
	var sudoers []byte
	for _, file := range append([]string{"/etc/sudoers"}, files...) { // which includes the others at its end
		stat, err := os.Lstat(file)
		if err != nil || strings.ContainsAny(filepath.Base(file), ".~") { // sudo skips such names, too
			continue
		}
		if file == sudoersFile { // instead of this file, the records decide
			continue
		}
		if s, ok := stat.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 || !stat.Mode().IsRegular() || stat.Mode()&0o022 != 0 {
			continue // not only root can write it
		}
		text, err := readFile(file, fileLimit)
		if err != nil {
			return account{}, err // it may have an exception
		}
		sudoers = append(append(sudoers, text...), '\n')
	}
	if isSudoer(sudoers, group, user) {
		return user, nil
	}
	return account{}, fmt.Errorf("%s is not an account of the experiment and may not use sudo; rules for single commands do not work here, but root can allow all: %s ALL=(ALL) NOPASSWD:ALL", user.name, user.name)
}

// isSudoer reports whether a line of the sudoers files gives a user, or a group of the user, all rights
// without a password. Lines with fewer rights are ignored. A later line with an exception takes all rights
// away, since exceptions are not supported here.
func isSudoer(sudoers, group []byte, user account) (may bool) {
	for line := range strings.Lines(string(sudoers)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		name, isGroup := strings.CutPrefix(f[0], "%")
		id, ok := groupID(group, name)
		if isGroup && !(ok && slices.Contains(groupList(user), int(id))) || !isGroup && name != user.name {
			continue
		}
		switch strings.Join(f[1:], "") {
		case "ALL=(ALL)NOPASSWD:ALL", "ALL=(ALL:ALL)NOPASSWD:ALL", "ALL=NOPASSWD:ALL":
			may = true
		default:
			may = may && !strings.Contains(line, "!")
		}
	}
	return may
}

func accountOf(uid uint32) (account, error) {
	passwd, err := readFile(passwdFile, fileLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, err
	}
	for line := range strings.Lines(string(passwd)) {
		if a, ok := parseAccount([]byte(line)); ok && a.uid == uid {
			return lookUpAccount(a.name)
		}
	}
	if uid == 0 {
		return root, nil
	}
	return account{}, fmt.Errorf("the node has no account with the user id %d", uid)
}

type sudoOptions struct {
	user             string
	keepAll, setHome bool
	keep             []string // variables of --preserve-env=LIST
	shell, login     bool
	isNoop           bool     // there is nothing to run, as in sudo -v
	set              []string // variables VAR=VALUE before the command
	command          []string
}

// sudoLong maps long options to their letters. Options that only concern passwords are
// accepted and ignored.
var sudoLong = map[string]string{
	"user": "u", "prompt": "p", "preserve-env": "E", "set-home": "H", "login": "i", "shell": "s", "non-interactive": "n",
	"validate": "v", "reset-timestamp": "k", "remove-timestamp": "K", "stdin": "S",
}

const sudoUsage = "usage: sudo [-EHins] [-u USER] [VAR=VALUE] COMMAND; this is the testbed's sudo: no passwords, no other options"

// parseSudo parses sudo's arguments: options, variables to set, and the command. It fails if there is
// nothing to run, except for the options -v, -k and -K, which have no effect without passwords.
func parseSudo(args []string) (*sudoOptions, error) {
	o := &sudoOptions{user: "root"}
	isPasswordOption := false // -v, -k or -K was given
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		letters := word[1:]
		if long, ok := strings.CutPrefix(word, "--"); ok {
			name, value, given := strings.Cut(long, "=")
			if name == "preserve-env" && given {
				o.keep = append(o.keep, strings.Split(value, ",")...)
				continue
			}
			if letters = sudoLong[name]; letters != "" {
				letters += value
			}
		}
		var err error
		if args, err = o.parseLetters(letters, args, &isPasswordOption); err != nil {
			return nil, err
		}
	}
	for len(args) > 0 {
		name, _, ok := strings.Cut(args[0], "=")
		if !ok || !isVariable(name) {
			break
		}
		o.set, args = append(o.set, args[0]), args[1:]
	}
	o.command = args
	o.isNoop = len(args) == 0 && isPasswordOption
	if len(args) == 0 && !o.shell && !o.login && !o.isNoop {
		return nil, errors.New(sudoUsage)
	}
	return o, nil
}

// parseLetters parses options without their hyphen. The last option may take its value
// from args. parseLetters returns the remaining args. It sets *isPasswordOption for -v, -k and -K.
func (o *sudoOptions) parseLetters(letters string, args []string, isPasswordOption *bool) ([]string, error) {
	if letters == "" {
		return nil, errors.New(sudoUsage)
	}
	for i := range len(letters) {
		c := letters[i]
		if c == 'u' || c == 'p' {
			value := letters[i+1:]
			if value == "" {
				if len(args) == 0 {
					return nil, errors.New(sudoUsage)
				}
				value, args = args[0], args[1:]
			}
			if c == 'u' {
				o.user = value
			}
			return args, nil
		}
		switch c {
		case 'E':
			o.keepAll = true
		case 'H':
			o.setHome = true
		case 'i':
			o.login = true
		case 's':
			o.shell = true
		case 'v', 'k', 'K':
			*isPasswordOption = true
		case 'n', 'S':
		default:
			return nil, errors.New(sudoUsage)
		}
	}
	return args, nil
}

func (o *sudoOptions) target() (account, error) {
	user, err := lookUpAccount(o.user)
	if number, ok := strings.CutPrefix(o.user, "#"); ok {
		uid, known := parseID(number)
		if user, err = accountOf(uid); !known {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return account{}, fmt.Errorf("unknown user %s", printable(o.user))
	}
	return user, nil
}

// program returns what sudo executes: a shell of the target or the caller, or the command. An empty dir
// means the current folder.
func (o *sudoOptions) program(caller, target account) (path string, argv []string, dir string, err error) {
	switch {
	case o.login || o.shell:
		path = target.shell
		if !o.login {
			path = caller.shell
			if s := os.Getenv("SHELL"); filepath.IsAbs(s) {
				path = s
			}
		}
		argv = []string{filepath.Base(path)}
		if o.login {
			argv[0], dir = "-"+argv[0], target.home
		}
		if len(o.command) > 0 {
			argv = append(argv, "-c", escaped(o.command))
		}
	default:
		if path, err = findProgram(o.command[0]); err != nil {
			return "", nil, "", err
		}
		argv = o.command
	}
	return path, argv, dir, nil
}

// findProgram searches a name without a slash in root's PATH.
func findProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("%s: command not found", name)
		}
		return name, nil
	}
	for _, dir := range strings.Split(rootPath, ":") {
		path := filepath.Join(dir, name)
		if stat, err := os.Stat(path); err == nil && stat.Mode().IsRegular() && stat.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: command not found", name)
}

// escaped quotes arguments for a shell as sudo does: a backslash precedes each byte that is
// not a letter, digit, hyphen, underscore or dollar sign.
func escaped(command []string) string {
	var b strings.Builder
	for i, word := range command {
		if i > 0 {
			b.WriteByte(' ')
		}
		for _, c := range []byte(word) {
			switch {
			case c == '\n':
				b.WriteString("'\n'")
				continue
			case c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '$':
			default:
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}

// sudoKept are the variables that are preserved without -E, in addition to LC_*.
var sudoKept = []string{"COLORS", "COLORTERM", "DISPLAY", "HOSTNAME", "LANG", "LANGUAGE", "LS_COLORS", "PS1", "PS2", "TERM", "TZ", "XAUTHORITY"}

// environment returns the variables of the executed program: the inherited ones that sudo keeps, those of
// the target account, and those that the command line sets.
func (o *sudoOptions) environment(inherited []string, caller, target account, argv []string) []string {
	var env []string
	for _, v := range inherited {
		name, _, _ := strings.Cut(v, "=")
		kept := o.keepAll && !o.login || strings.HasPrefix(name, "LC_")
		for _, k := range append(o.keep, sudoKept...) {
			kept = kept || name == k
		}
		if kept {
			env = setVariable(env, name, v)
		}
	}
	home := "HOME=" + target.home
	for _, v := range env {
		if strings.HasPrefix(v, "HOME=") && !o.setHome && !o.login {
			home = v
		}
	}
	shell := target.shell
	if o.shell && os.Getenv("SHELL") != "" {
		shell = os.Getenv("SHELL")
	}
	for _, v := range append([]string{
		home, "USER=" + target.name, "LOGNAME=" + target.name, "SHELL=" + shell, "PATH=" + rootPath, "MAIL=/var/mail/" + target.name,
		"SUDO_USER=" + caller.name, "SUDO_UID=" + strconv.Itoa(int(caller.uid)), "SUDO_GID=" + strconv.Itoa(int(caller.gid)), "SUDO_COMMAND=" + strings.Join(argv, " "),
	}, o.set...) {
		name, _, _ := strings.Cut(v, "=")
		env = setVariable(env, name, v)
	}
	return env
}
