package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/schemas/yamlfile"
)

// Companion is the service of a provider: a program that must run while the provider is used.
type Companion struct {
	Provider string            // its name
	File     string            // the path of NAME.yaml, which has the provider's settings
	Command  []string          // the program and its arguments
	Settings provider.Settings // as the provider describes them
	Metadata string            // as the provider describes them
	values   map[string]any    // the settings in File
	implied  bool              // File names no service, but an earlier version of init wrote the provider
	provider *provider.Provider
}

// answerTime limits how long a provider may take to say whether its service answers.
const answerTime = 5 * time.Second

// OpenCompanion returns the service of a provider with the settings that the provider describes. It
// returns nil if the provider has no service, or no readable metadata. If the provider cannot
// describe its settings, OpenCompanion returns the service and an error, which is a
// *yamlfile.Error for wrong settings.
func OpenCompanion(ctx context.Context, dir, name string) (*Companion, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, nil
	}
	c := &Companion{Provider: name, File: filepath.Join(dir, name+".yaml")}
	executable := filepath.Join(dir, name+provider.Suffix)
	var err error
	if c.Command, err = provider.ServiceOf(c.File); err != nil {
		return nil, nil // opening the provider reports the error
	}
	if c.Command == nil {
		c.Command, c.implied = impliedService(executable, name, c.File), true
	}
	if c.Command == nil {
		return nil, nil
	}
	if c.provider, err = provider.Open(executable, slog.New(slog.DiscardHandler)); err != nil {
		return c, err
	}
	if text, err := ReadRegular(c.File); err == nil {
		_ = yaml.Unmarshal(text, &c.values) // the provider reports the error
	}
	delete(c.values, "provider")
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	defer cancel()
	if c.Settings, c.Metadata, err = c.provider.Describe(ctx); err != nil {
		return c, fmt.Errorf("%s: describe: %w", executable, err)
	}
	var wrong yamlfile.Error
	for _, p := range c.Settings.Problems {
		wrong.Problems = append(wrong.Problems, yamlfile.Problem{File: c.File, Line: p.Line, Msg: p.Message})
	}
	if len(wrong.Problems) > 0 {
		return c, &wrong
	}
	return c, nil
}

// impliedService returns the service of a provider whose script is as an earlier version of
// init wrote it: exec PROGRAM local --name NAME "$@". It returns nil for any other script.
func impliedService(executable, name, settings string) []string {
	f, err := OpenRegular(executable)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 8<<10))
	word, ok := strings.CutPrefix(string(text), "#!/bin/sh\nexec ")
	word, ok2 := strings.CutSuffix(word, " local --name "+name+" \"$@\"\n")
	if err != nil || !ok || !ok2 {
		return nil
	}
	program := word
	if quoted, ok := strings.CutPrefix(word, "'"); ok {
		program = strings.ReplaceAll(strings.TrimSuffix(quoted, "'"), `'\''`, "'")
		if word != "'"+strings.ReplaceAll(program, "'", `'\''`)+"'" {
			return nil
		}
	} else if word != display.ShellWord(word) {
		return nil
	}
	return []string{program, "up", settings}
}

// trustedCommand returns the command for a server that runs as root. If another user can write
// the metadata, that user could name any program. Then the program must be patchbay-…, which is
// run from the folder of this server's own program, and its arguments must be "up" and the
// provider's settings.
func (c *Companion) trustedCommand() ([]string, error) {
	uid, another, err := c.author()
	if err != nil || !another {
		return c.Command, err
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, err
	}
	name := filepath.Base(c.Command[0])
	if !strings.HasPrefix(name, "patchbay-") || !slices.Equal(c.Command[1:], []string{"up", c.File}) {
		return nil, fmt.Errorf("%s belongs to user %d or can be changed by a group, so root starts only a program patchbay-… beside its own, with the arguments up and %s; start the service yourself: %s", c.File, uid, filepath.Base(c.File), display.AsRoot(c.Command...))
	}
	trusted := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(trusted); err != nil {
		return nil, fmt.Errorf("%s belongs to user %d or can be changed by a group, so root starts only the %s beside its own program, and that one is missing (%w); install it there, or start the service yourself: %s", c.File, uid, name, err, display.AsRoot(c.Command...))
	}
	return append([]string{trusted}, c.Command[1:]...), nil
}

// author returns a user, other than root, that may write the metadata, if this process is root.
// For a group that may write them, it returns the owner of the file.
func (c *Companion) author() (uid int, another bool, err error) {
	uid, _, another, err = file.OtherOwner(filepath.Dir(c.File))
	if err != nil || another || os.Geteuid() != 0 {
		return uid, another, err
	}
	for _, path := range []string{c.File, filepath.Dir(c.File)} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) { // an earlier version of init, without settings
			continue
		}
		if err != nil {
			return 0, false, err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 || info.Mode().Perm()&0o022 != 0 {
			return int(owner), true, nil
		}
	}
	return 0, false, nil
}

func providersOf(inv *inventory.Inventory) map[string]bool {
	used := make(map[string]bool)
	for _, c := range inv.Components {
		used[c.Provider] = true
	}
	return used
}

// findCompanions returns the services of the named providers. It leaves out a service whose
// provider has wrong settings, because the provider reports that error.
func findCompanions(dir string, names map[string]bool) []*Companion {
	var found []*Companion
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c, err := OpenCompanion(context.Background(), dir, name)
		if _, wrong := errors.AsType[*yamlfile.Error](err); c != nil && c.provider != nil && !wrong {
			found = append(found, c)
		}
	}
	return found
}

// Answers returns an error unless the provider answers a get of an unknown name, which needs
// the service.
func (c *Companion) Answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if c.provider == nil {
		return errors.New("its provider cannot be opened")
	}
	_, err := c.provider.Get(ctx, []string{"none"})
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return errors.New(e.Detail())
	}
	return err
}

// hasChanged reports whether a value of the settings, or the command, is another one now.
func (c *Companion) hasChanged(now *Companion) bool {
	return !reflect.DeepEqual(c.values, now.values) || !slices.Equal(c.Command, now.Command)
}

// longestPause is the longest pause before the restart of a service that ends again and again.
const longestPause = time.Minute

const (
	// maxLogLine is the maximum length of a service's line in the log, in bytes.
	maxLogLine = 4 << 10
	// maxLogLines is the maximum number of a service's lines in the log in a second.
	maxLogLines = 500
)
