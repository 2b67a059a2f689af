package site

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/follow/hook"
)

// HookConfig is a receiver of events about slivers. Events arrive at least once, in
// order within a slice, and never delay a call.
type HookConfig struct {
	// Name identifies the hook. The store keeps its position under this name. So a
	// renamed hook gets only events after the change.
	Name string `yaml:"name"`
	// Command is an executable that gets each event as JSON on standard input. Exit status 0
	// acknowledges the event. Command runs with the rights of the server.
	Command string `yaml:"command"`
	// URL receives each event by POST. An answer with a status 2xx acknowledges the event. Either
	// Command or URL must be set.
	URL string `yaml:"url"`
	// Events are the kinds of the delivered events. The default is allocated, ready, failed,
	// expiring, released and shutdown. Other kinds are renewed, gone, thawed, step_failed,
	// stage_ended, begins, limited and no_show.
	Events []string `yaml:"events"`
	// Before is the time from the event expiring to the end of the lease; 1h.
	Before time.Duration `yaml:"before"`
	// Timeout limits the delivery of one event; 30s.
	Timeout time.Duration `yaml:"timeout"`
	// Secret is a file with the key that signs posted events, so that the receiver can
	// verify their origin.
	Secret string `yaml:"secret"`
	// CA is a PEM file with the certificates that verify the server at URL; the default is
	// the certificates that this host trusts.
	CA string `yaml:"ca"`
}

const (
	maxHooks    = 32
	maxHookTime = 365 * 24 * time.Hour
)

var hookName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func hookPaths(hooks []HookConfig) (paths []*string) {
	for i := range hooks {
		h := &hooks[i]
		paths = append(paths, &h.Command, &h.Secret, &h.CA)
	}
	return paths
}

// checkHooks returns an error for each mistake in the configuration of hooks. It opens no files.
func checkHooks(o origin, hooks []HookConfig) (errs []error) {
	if len(hooks) > maxHooks {
		errs = append(errs, o.errorf("hooks", "%d are too many; configure at most %d, and send more events to each", len(hooks), maxHooks))
	}
	names := map[string]bool{}
	for i := range hooks {
		h := &hooks[i]
		wrong := func(format string, args ...any) {
			errs = append(errs, &ConfigError{o.Where(fmt.Sprintf("hooks[%d]", i)), "hooks", fmt.Sprintf(format, args...)})
		}
		switch {
		case !hookName.MatchString(h.Name):
			wrong("number %d needs a name of letters, digits, dots, hyphens and underscores, not %.80q", i+1, h.Name)
		case names[h.Name]:
			wrong("two have the name %s; give each its own name, because the position of a hook is stored by name", h.Name)
		}
		names[h.Name] = true
		switch {
		case (h.Command == "") == (h.URL == ""):
			wrong("%s needs either a command or a url", h.Name)
		case h.URL != "":
			if err := checkHookURL(h.URL); err != nil {
				wrong("%s: %v", h.Name, err)
			}
		case h.Secret != "" || h.CA != "":
			wrong("%s: secret and ca need a url", h.Name)
		}
		for _, w := range h.Events {
			if slices.Contains(hook.Kinds, hook.Kind(w)) {
				continue
			}
			hint := "known are: " + eventWords()
			if near := display.Suggest(w, strings.Split(eventWords(), ", ")); near != "" {
				hint = "did you mean " + near + "?"
			}
			wrong("%s: there is no event %.80q; %s", h.Name, w, hint)
		}
		for key, d := range map[string]time.Duration{"before": h.Before, "timeout": h.Timeout} {
			if d < 0 || d > maxHookTime {
				wrong("%s: %s must be a time like 30s, 1h or 2d", h.Name, key)
			}
		}
	}
	return errs
}

func eventWords() string {
	var list []string
	for _, w := range hook.Kinds {
		list = append(list, string(w))
	}
	return strings.Join(list, ", ")
}

func checkHookURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "":
		return errors.New("its url is not https://HOST/PATH")
	case u.User != nil:
		return errors.New("its url holds a password; sign with secret: FILE instead")
	case u.Port() != "" && (u.Port() == "0" || !validPort(u.Port())):
		return fmt.Errorf("its url has the port %s; ports are 1 to 65535", u.Port())
	}
	return nil
}

// Check fails if the hook's command or files cannot be used. It starts and sends nothing.
func (h *HookConfig) Check() error {
	if h.Command != "" {
		return hook.CheckCommand(h.Command)
	}
	var errs []error
	if h.Secret != "" {
		_, err := hook.ReadSecret(h.Secret)
		errs = append(errs, err)
	}
	if h.CA != "" {
		_, err := hook.ReadCA(h.CA)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
