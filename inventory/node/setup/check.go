package setup

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	plan "patchbay/rspec/step"
)

// Bounds on a step, in bytes.
const (
	MaxURL         = 256 << 10   // data: URLs count too
	MaxCommand     = 128<<10 - 1 // the kernel's own limit
	maxVariable    = 128<<10 - 1 // with its name; the kernel's own limit
	maxEnvironment = 512 << 10
	maxPath        = 4095
	maxShort       = 64
	maxStepName    = 1024
)

// Bounds on the lists of a step.
const (
	maxFiles    = 256
	maxAccounts = 1000
	maxFolders  = 256
)

// keys are the keys that the steps of each kind can have besides kind, step and stage.
var keys = map[string][]string{
	Install:  {"url", "install_path", "file_type", "archive"},
	Execute:  {"operation", "shell", "command", "script", "files", "environment", "as_user", "background"},
	UserData: {"url"},
	Disk:     {"url", "install_path", "size", "fstype"},
}

// checkStep checks the members of a step, and that all of them belong to its kind. It fails with an
// unsupportedError for a valid step that this program cannot do.
func checkStep(s *Step) error {
	allowed, ok := keys[s.Kind]
	if !ok {
		return unsupportedError{fmt.Errorf("the kind %.40q is none of %s, %s, %s and %s", s.Kind, Install, Execute, UserData, Disk)}
	}
	for field, v := range reflect.ValueOf(s).Elem().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case v.Kind() == reflect.String && strings.ContainsRune(v.String(), 0):
			return fmt.Errorf("the %s contains a zero byte", key)
		case key == "kind" || key == "step" || key == "stage" || key == "run" || v.IsZero() || slices.Contains(allowed, key):
		default:
			return fmt.Errorf("a step of kind %s has no %s", s.Kind, key)
		}
	}
	switch {
	case len(s.Name) > maxStepName:
		return fmt.Errorf("the name of the step has %d bytes, at most %d are allowed", len(s.Name), maxStepName)
	case s.Stage < 0:
		return fmt.Errorf("the stage %d is negative", s.Stage)
	case !slices.Contains([]string{"", plan.Start, plan.Stop, plan.Uninstall}, s.Operation):
		return unsupportedError{fmt.Errorf("the operation %.40q is none of %s, %s and %s", s.Operation, plan.Start, plan.Stop, plan.Uninstall)}
	}
	switch s.Kind {
	case Install:
		return checkInstall(s)
	case UserData:
		return checkUserData(s)
	case Disk:
		return checkDisk(s)
	}
	return checkExecute(s)
}

func checkURL(text string) error {
	if len(text) > MaxURL {
		return fmt.Errorf("the url has %d bytes, at most %d are allowed", len(text), MaxURL)
	}
	if isData(text) {
		return nil
	}
	_, err := parseURL(text)
	return err
}

func checkInstall(s *Step) error {
	if err := checkURL(s.URL); err != nil {
		return err
	}
	switch {
	case len(s.InstallPath) > maxPath || !path.IsAbs(s.InstallPath) && s.InstallPath != "~" && !strings.HasPrefix(s.InstallPath, "~/"):
		return fmt.Errorf("the install_path %.80q is not absolute and does not begin with ~/", s.InstallPath)
	case len(s.FileType) > maxShort:
		return fmt.Errorf("the file_type has %d bytes, at most %d are allowed", len(s.FileType), maxShort)
	case s.Archive == nil:
		return nil
	}
	if err := checkAccounts("user", s.Archive.Users); err != nil {
		return err
	}
	if err := checkAccounts("group", s.Archive.Groups); err != nil {
		return err
	}
	return checkFolders(s.Archive.Folders, s.InstallPath)
}

// noID is the number that means "no change" to the kernel. No account can have it.
const noID = ^uint32(0)

// accountName has the names that useradd accepts.
var accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[$]?$`)

func checkAccounts(what string, list []plan.Account) error {
	if len(list) > maxAccounts {
		return fmt.Errorf("the archive has %d %ss, at most %d are allowed", len(list), what, maxAccounts)
	}
	seen := map[uint32]bool{}
	for _, a := range list {
		switch {
		case !accountName.MatchString(a.Name):
			return fmt.Errorf("%.80q cannot be the name of a %s", a.Name, what)
		case a.ID == noID:
			return fmt.Errorf("%d cannot be the number of a %s", a.ID, what)
		case seen[a.ID]:
			return fmt.Errorf("two %ss of the archive have the number %d", what, a.ID)
		}
		seen[a.ID] = true
	}
	return nil
}

// folderMode has the permissions of a folder, without the bits set-user-id, set-group-id and sticky.
var folderMode = regexp.MustCompile(`^0?[0-7]{3}$`)

func checkFolders(list []plan.Folder, target string) error {
	if len(list) > maxFolders {
		return fmt.Errorf("the archive has %d folders, at most %d are allowed", len(list), maxFolders)
	}
	seen := map[string]bool{}
	for _, f := range list {
		switch {
		case f.Path != path.Clean(f.Path) || f.Path == "/" || f.Path != path.Clean(target) && !strings.HasPrefix(path.Clean(target), f.Path+"/"):
			return fmt.Errorf("the folder %.80q of the archive is neither the install_path nor above it", f.Path)
		case seen[f.Path]:
			return fmt.Errorf("the archive has the folder %.80q twice", f.Path)
		case f.User == noID || f.Group == noID:
			return fmt.Errorf("%d cannot be the owner of the folder %.80q", noID, f.Path)
		case !folderMode.MatchString(f.Mode):
			return fmt.Errorf("the mode %.20q of the folder %.80q is not three octal digits", f.Mode, f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}

func checkUserData(s *Step) error {
	if err := checkURL(s.URL); err != nil {
		return err
	}
	if !isData(s.URL) {
		return errors.New("the url of user data is not a data: URL")
	}
	_, err := dataContent(s.URL)
	return err
}

func checkExecute(s *Step) error {
	hasScript := s.Script != "" || len(s.Files) > 0
	switch {
	case hasScript && s.Command != "":
		return errors.New("an execute has either a command or a script")
	case s.Shell != "sh" && s.Shell != "bash" && (s.Shell != "" || !hasScript):
		return fmt.Errorf("the shell %.40q is neither sh nor bash", s.Shell)
	case !hasScript && s.Command == "":
		return errors.New("the command is empty")
	case len(s.Command) > MaxCommand:
		return fmt.Errorf("the command has %d bytes, at most %d are allowed; install a script and execute that", len(s.Command), MaxCommand)
	}
	if err := checkEnvironment(s.Environment); err != nil || !hasScript {
		return err
	}
	return checkFiles(s.Script, s.Files)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkEnvironment(e map[string]string) error {
	size := 0
	for name, value := range e {
		length := len(name) + len("=") + len(value)
		size += length
		switch {
		case !variable.MatchString(name):
			return fmt.Errorf("%.80q cannot be the name of a variable", name)
		case root.sets(name):
			return fmt.Errorf("the variable %s cannot be changed, since every step has it", name)
		case strings.ContainsRune(value, 0):
			return fmt.Errorf("the variable %.80s contains a zero byte", name)
		case length > maxVariable:
			return fmt.Errorf("the variable %.80s has %d bytes, at most %d are allowed", name, length, maxVariable)
		}
	}
	if size > maxEnvironment {
		return fmt.Errorf("the variables have %d bytes, at most %d are allowed", size, maxEnvironment)
	}
	return nil
}

func checkFiles(script string, files []plan.File) error {
	if len(files) > maxFiles {
		return fmt.Errorf("the step has %d files, at most %d are allowed", len(files), maxFiles)
	}
	seen := map[string]bool{}
	for _, f := range files {
		if name, err := cleanName(f.Path); err != nil || name == "." || name != f.Path {
			return fmt.Errorf("%.80q cannot be the path of a file of the step; use a relative path without \"..\" in it", f.Path)
		}
		if err := checkURL(f.URL); err != nil {
			return fmt.Errorf("the file %.80q: %w", f.Path, err)
		}
		if seen[f.Path] {
			return fmt.Errorf("the step has the file %.80q twice", f.Path)
		}
		seen[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return fmt.Errorf("the file %.80q of the step is also the folder of %.80q", dir, f.Path)
			}
		}
	}
	if !seen[script] {
		return fmt.Errorf("the script %.80q is not one of the files of the step", script)
	}
	return nil
}
