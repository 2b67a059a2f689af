package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// getTime and setTime limit the time for the testbed's answer. They are shorter than
// the manager's limits for a provider, so that the manager still gets an error message
// if the testbed is late.
const (
	getTime = provider.GetTimeout - 5*time.Second
	setTime = provider.SetTimeout - time.Second
)

// Run runs one call of the provider called name, whose settings are in dir. argument is
// ral_action=ACTION. Run reads the request from stdin, and writes the testbed's answer to
// stdout. If the testbed is down or the settings are wrong, the answer reports that.
// Remedies for operators go to standard error. Run returns an error only if it cannot write
// an answer.
func Run(dir, name, argument string, stdin io.Reader, stdout io.Writer) error {
	c := client{dir: dir, name: name, socket: Socket, stderr: os.Stderr}
	return c.run(argument, stdin, stdout)
}

type client struct {
	dir, name string
	socket    func(instance string) string
	stderr    io.Writer
	// behind means that NAME.yaml belongs to another provider; this program reads only
	// its key instance.
	behind bool
}

// run answers the call in argument: describe itself, any other action by the testbed.
func (c *client) run(argument string, in io.Reader, out io.Writer) error {
	action, err := c.action(argument)
	if err != nil {
		return err
	}
	if action == "describe" {
		return c.describe(out)
	}
	input, err := readInput(in)
	if errors.Is(err, errTooLarge) {
		return provider.WriteAnswer(out, provider.Failure(err))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit(action))
	defer cancel()
	output, err := c.requestTestbed(ctx, Request{Action: action, Input: input, Settings: SettingsPath(filepath.Join(c.dir, c.name+".yaml"))})
	if err != nil {
		return provider.WriteAnswer(out, provider.Failure(err))
	}
	_, err = out.Write(append(output, '\n'))
	return err
}

func limit(action string) time.Duration {
	if action == ActionGet {
		return getTime
	}
	return setTime
}

// requestTestbed sends a request to the testbed, and returns the output of the answer. The error is for
// experimenters. Details for operators go to standard error.
func (c *client) requestTestbed(ctx context.Context, r Request) (json.RawMessage, error) {
	path := filepath.Join(c.dir, c.name+".yaml")
	instance, err := c.instance(path)
	if err != nil {
		fmt.Fprintf(c.stderr, "error: %v\n", err)
		return nil, errors.New("the local testbed of this site is not set up; ask its operators to look into the log")
	}
	a, err := Call(ctx, c.socket(instance), r)
	for _, f := range a.Files {
		f.Close()
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	switch {
	case err == nil:
		return a.Output, nil
	case errors.Is(err, ErrDown) && c.behind:
		fmt.Fprintf(c.stderr, "error: %s has the line instance: %s, but this testbed does not run; running here: %s\n",
			filepath.Base(path), instance, running(filepath.Dir(c.socket(instance))))
		return nil, errDown()
	case errors.Is(err, ErrDown):
		fmt.Fprintf(c.stderr, "error: %v; start it as root: %s\n", err, ownUpCommand(path))
		return nil, errDown()
	case errors.Is(err, os.ErrPermission):
		fmt.Fprintf(c.stderr, "error: %v; only root and the owner of %s may call the testbed: make the manager's user the owner of the file, and restart patchbay-local up\n", err, filepath.Base(path))
		return nil, errors.New("the local testbed of this site refuses calls of its manager; ask its operators to look into the log")
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errors.New("the local testbed of this site did not answer in time; try again")
	}
	fmt.Fprintf(c.stderr, "error: the testbed %s: %v\n", instance, err)
	return nil, errors.New("the local testbed of this site could not answer; ask its operators to look into the log")
}

func errDown() error {
	return errors.New("the local testbed of this site does not run; the log of the site says how operators start it")
}

func (c *client) instance(path string) (string, error) {
	if c.behind {
		return readInstance(path)
	}
	s, err := ReadSettings(path)
	return s.Instance, err
}

// SettingsPath returns the path by which a testbed compares settings files: absolute and
// without symbolic links.
func SettingsPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

func ownUpCommand(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return UpCommand(ownPath(), path)
}

// action parses ral_action=ACTION.
func (c *client) action(argument string) (string, error) {
	if c.name == "" || c.name[0] == '.' || strings.ContainsRune(c.name, '/') {
		return "", fmt.Errorf("%q cannot be the name of a provider", c.name)
	}
	action, ok := strings.CutPrefix(argument, "ral_action=")
	switch {
	case !ok:
		return "", fmt.Errorf("the argument %q is not ral_action=describe, get or set", argument)
	case action != "describe" && action != ActionGet && action != ActionSet:
		return "", fmt.Errorf("there is no action %q", action)
	}
	return action, nil
}

// maxInput leaves room in a request for the fields around the input. The manager sends
// less in one call, unless a single node needs more.
const maxInput = MaxRequest - 1024

var errTooLarge = fmt.Errorf("the request has more than %d bytes, the most that this testbed reads; request less for one node", maxInput)

// readInput fails unless the input is JSON. It returns errTooLarge, whose text is for
// experimenters, if the input has more than maxInput bytes.
func readInput(in io.Reader) (json.RawMessage, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
	case len(b) > maxInput:
		return nil, errTooLarge
	case !json.Valid(b):
		err = errors.New("it is not JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return b, nil
}

type object map[string]any
