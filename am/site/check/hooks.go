package check

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"patchbay/am/display"
	"patchbay/am/follow/hook"
	"patchbay/am/site"
)

func (k *Checker) hooks(ctx context.Context, c *site.Config) {
	if len(c.Hooks) == 0 {
		return
	}
	served, err := c.HookStates(ctx)
	if err != nil && !errors.Is(err, site.ErrNotServed) {
		k.warn(c.Origin.Where("hooks"), "the state of the hooks cannot be read: %v", err)
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		at := c.Origin.Where(fmt.Sprintf("hooks[%d]", i))
		if err := h.Check(); err != nil {
			k.bad(at, "hook %s: %v", h.Name, err)
			continue
		}
		events := "the default events"
		if len(h.Events) > 0 {
			events = strings.Join(h.Events, ", ")
		}
		k.good(at, "hook %s receives %s", h.Name, events)
		if state, ok := served[h.Name]; ok {
			k.hook(at, state)
		} else if served != nil {
			k.note(at, "hook %s receives nothing yet: hooks are read when the server starts", h.Name)
		}
		if info, err := os.Stat(h.Secret); err == nil && info.Mode().Perm()&0o077 != 0 {
			k.warn(at, "hook %s: other users may read its secret, and could sign events as this site: chmod 600 %s", h.Name, h.Secret)
		}
		if info, err := os.Stat(filepath.Dir(h.Command)); h.Command != "" && err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			k.warn(at, "hook %s: every user may replace its command; forbid that: chmod o-w %s", h.Name, filepath.Dir(h.Command))
		}
		if u, err := url.Parse(h.URL); err == nil && u.Scheme == "http" && !site.IsLoopbackName(u.Hostname()) {
			k.warn(at, "hook %s: events are posted unencrypted; use https", h.Name)
		}
	}
}

func (k *Checker) hook(at string, s hook.State) {
	wait := display.Count(s.Waiting, "event") + " wait"
	if s.Waiting == 1 {
		wait += "s"
	}
	switch {
	case s.Failing:
		k.warn(at, "hook %s has failed since %s, %s in a row: %s; %s for it", s.Name, display.Time(s.Since), display.Count(s.Failures, "time"), s.Error, wait)
	case s.Waiting > 0:
		k.note(at, "hook %s: %s for it", s.Name, wait)
	}
}
