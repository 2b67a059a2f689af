package simulated

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"patchbay/inventory/provider"
)

type simulation struct {
	settings
	state string // the folder NAME.state
	now   func() time.Time
	hang  func() // waits forever
	die   func() // kills the process
}

// Run handles one call of the simulated provider with the given name. The provider's settings
// and state are in the folder dir. The parameter argument is "ral_action=" with the action. A
// mistake in the settings or the state is an error in the answer. Run returns an error if the
// argument or the input is invalid, or the answer cannot be written.
func Run(dir, name, argument string, input io.Reader, output io.Writer) error {
	if name == "" || name[0] == '.' || strings.ContainsRune(name, '/') {
		return fmt.Errorf("%q cannot be the name of a provider", name)
	}
	s := &simulation{
		state: filepath.Join(dir, name+".state"),
		now:   time.Now,
		hang: func() {
			for {
				time.Sleep(time.Hour)
			}
		},
		die: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	}
	action, ok := strings.CutPrefix(argument, "ral_action=")
	if !ok {
		return fmt.Errorf("the argument %q is not ral_action=describe, get or set", argument)
	}
	if action == "describe" {
		_, err := io.WriteString(output, describeText)
		return err
	}
	var err error
	if s.settings, err = readSettings(filepath.Join(dir, name+".yaml")); err != nil {
		return provider.WriteAnswer(output, provider.Failure(err))
	}
	if action != "get" && action != "set" {
		return fmt.Errorf("there is no action %q", action)
	}
	q, err := provider.ReadCall[provider.Requested](input)
	if err != nil {
		return err
	}
	if action == "get" {
		return provider.WriteAnswer(output, s.get(q.Names))
	}
	return provider.WriteAnswer(output, s.set(q.Updates, q.Ral.Noop))
}

type object map[string]any

// get returns the answer to a get of the named nodes; of all nodes if names is empty.
func (s *simulation) get(names []string) object {
	st, err := openState(s.state, false)
	if err != nil {
		return provider.Failure(err)
	}
	defer st.close()
	now := s.now()
	resources := []provider.Resource{}
	if len(names) == 0 {
		for _, n := range st.live(now) {
			resources = append(resources, n.report(now, s.Domain))
		}
	}
	for _, name := range names {
		if n := st.nodes[name]; n != nil && !n.isGone(now) {
			resources = append(resources, n.report(now, s.Domain))
		} else {
			resources = append(resources, provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent})
		}
	}
	return object{"resources": resources}
}
