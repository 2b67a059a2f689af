package site

import (
	"context"
	"encoding/json"
	"net/http"

	"patchbay/am/hook"
	"patchbay/am/server"
)

// HookStates asks a served site how its hooks do, by their names.
func (c *Config) HookStates(ctx context.Context) (map[string]hook.State, error) {
	var list []hook.State
	if err := Ask(ctx, c, "/hooks", &list); err != nil {
		return nil, err
	}
	states := make(map[string]hook.State, len(list))
	for _, s := range list {
		states[s.Name] = s
	}
	return states, nil
}

// tellHooks answers how each hook does.
func (s *Site) tellHooks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(s.hooks.States()) // who asked may have left
}

// openHooks has what the store posts delivered, once the site is served.
func (s *Site) openHooks() (err error) {
	s.hooks, err = hook.New(hook.Config{Store: s.store, Hooks: s.config.hooks(), Log: s.log})
	for i := range s.config.Hooks {
		if err := s.config.Hooks[i].Usable(); err != nil {
			s.log.Error("a hook cannot be told of anything; its events wait", "hook", s.config.Hooks[i].Name, "error", err)
		}
	}
	return err
}

// runHooks delivers until ctx ends; ended is closed when all is put down.
func (s *Site) runHooks(ctx context.Context) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.hooks.Run(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("hooks are not told of anything any more; start the server again", "error", err)
		}
	}()
	return ended
}

// hookGauges are the numbers about hooks.
func (s *Site) hookGauges() []server.Gauge {
	number := func(f func() int) func() float64 { return func() float64 { return float64(f()) } }
	return []server.Gauge{
		{Name: "hook_events", Help: "Events that some hook has yet to take.", Value: number(s.hooks.Waiting)},
		{Name: "hook_events_lost", Help: "Events dropped since the start because too many waited, or for too long; anything but 0 needs an operator.", Value: number(s.hooks.Lost)},
		{Name: "hooks_failing", Help: "Hooks that did not take the last event that they were told.", Value: number(s.hooks.Failing)},
	}
}
