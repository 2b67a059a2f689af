package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/am/executable"
)

// maxAnswer limits the standard output of a get or set.
const maxAnswer = 16 << 20

type call struct {
	action string
	in     []byte // nil: standard input is empty
	limit  time.Duration
	answer int // maximal bytes on standard output
}

// run returns the executable's standard output. When run returns, no process of the
// executable's process group is alive. The error does not name the provider, and wraps
// context.DeadlineExceeded if the time limit was exceeded.
func (p *Provider) run(ctx context.Context, c call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	begun := time.Now()
	end, _ := ctx.Deadline()
	out := &limitedBuffer{max: c.answer}
	stderr := &stderrLog{log: p.logger().With("provider", p.Name, "action", c.action)}
	cmd := &executable.Command{Path: p.Path, Args: []string{"ral_action=" + c.action}, Dir: p.Dir, Stdin: c.in, Stdout: out, Stderr: stderr}
	if err := cmd.RunAsOwner(p.Dir); err != nil { // the provider writes to its own folder
		return nil, err
	}
	run := cmd.Run
	if p.Execute != nil {
		run = func(ctx context.Context) (bool, error) { return p.Execute(ctx, cmd) }
	}
	held, err := run(ctx)
	stderr.flush()
	if exit, ok := errors.AsType[*executable.ExitError](err); ok {
		text := "ended with %w, so its answer is ignored"
		if exit.ExitCode() == 127 { // exit status of env and of shells
			text += "; 127 means that a program was not found, perhaps the interpreter in its first line"
		}
		return nil, fmt.Errorf(text, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("did not end within %v: %w", end.Sub(begun).Round(100*time.Millisecond), err)
	}
	if err != nil {
		return nil, err
	}
	if held {
		stderr.log.Warn("left a process behind that holds its output open; redirect the streams of a process that must continue")
	}
	if p.Trace != nil && c.in != nil {
		p.Trace(c.action, out.buf.Bytes())
	}
	return out.buf.Bytes(), nil
}

func (p *Provider) reportEnd(action string, begun time.Time, err error) {
	if p.Ended != nil && !errors.Is(err, context.Canceled) {
		p.Ended(action, time.Since(begun), err)
	}
}

type limitedBuffer struct {
	buf bytes.Buffer
	max int
}

// Write fails if the buffer would exceed max bytes.
func (b *limitedBuffer) Write(s []byte) (int, error) {
	if b.buf.Len()+len(s) > b.max {
		return 0, fmt.Errorf("wrote more than %d bytes", b.max)
	}
	return b.buf.Write(s)
}
