package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/am/executable"
)

// maxOutput limits the part of a hook's output that is kept for messages, in bytes.
const maxOutput = 2048

type command struct{ *Hook }

// send runs the executable with the event as its input. It returns when no process of the executable's group is alive.
// Exit status 0 means that the event was taken.
func (c *command) send(ctx context.Context, e Event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := CheckCommand(c.Command); err != nil {
		return err
	}
	output := &tail{}
	run := &executable.Command{Path: c.Command, Dir: c.Dir, Stdin: append(text, '\n'), Stdout: output, Env: []string{
		"PATCHBAY_EVENT=" + string(e.Event),
		"PATCHBAY_EVENT_ID=" + e.ID,
		"PATCHBAY_EVENT_HOOK=" + c.Name,
		"PATCHBAY_EVENT_SLICE=" + e.Slice,
		"PATCHBAY_EVENT_SLIVER=" + e.Sliver,
	}}
	if err := run.RunAsOwner(c.Dir); err != nil {
		return err
	}
	_, err = run.Run(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ctx.Err()):
		err = fmt.Errorf("did not end in time: %w", err)
	}
	return fmt.Errorf("%w%s", err, output.quote())
}

func (c *command) close() {}

// CheckCommand fails if a file cannot be a hook's command.
func CheckCommand(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the executable %s does not exist; create it, or correct command", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file; name an executable", path)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may change the executable %s, which runs with the rights of the server; forbid that: chmod o-w", path)
	case unix.Access(path, unix.X_OK) != nil:
		return fmt.Errorf("this user may not execute %s; give it the right: chmod +x", path)
	}
	return nil
}

// tail keeps the end of the bytes that are written to it.
type tail struct{ end []byte }

// Write accepts everything, so that the writer never blocks.
func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	b = b[max(0, n-maxOutput):]
	if over := len(t.end) + len(b) - maxOutput; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	t.end = append(t.end, b...)
	return n, nil
}

func (t *tail) quote() string { return quote(t.end) }

func quote(output []byte) string {
	output = bytes.TrimSpace(output)
	if len(output) == 0 {
		return ""
	}
	return fmt.Sprintf("; its output: %q", output[max(0, len(output)-500):])
}
