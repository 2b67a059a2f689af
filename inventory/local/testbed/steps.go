package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

// Bounds on the steps of a node. Neither their file nor the journal, which has the
// end of what each printed, may be larger than maxRecord, also when each byte is
// written as six.
const (
	maxSteps     = 256
	maxStepBytes = 512 << 10
)

const stepsFile = "setup.json"

// parseSteps reads the attribute setup. The error is for experimenters.
func parseSteps(items *[]string) ([]setup.Step, error) {
	if items == nil {
		return nil, nil
	}
	if len(*items) > maxSteps {
		return nil, refused(provider.Failed, "a node is to be set up in %d steps, and can be in %d", len(*items), maxSteps)
	}
	size, executes := 0, false
	var all []setup.Step
	for i, item := range *items {
		s, err := setup.ParseStep(item)
		if err != nil {
			return nil, refused(provider.Failed, "step %d of the setup is refused: %v", i+1, err)
		}
		if size += len(s.URL) + len(s.InstallPath) + len(s.FileType) + len(s.Command); size > maxStepBytes {
			return nil, refused(provider.Failed, "the setup has more than %d bytes; fetch what is large with an install", maxStepBytes)
		}
		if s.Kind == setup.Install && executes {
			return nil, refused(provider.Failed, "step %d of the setup is an install behind an execute; all installs come first", i+1)
		}
		executes = s.Kind == setup.Execute
		all = append(all, s)
	}
	return all, nil
}

// stepsSum tells steps from others; empty if there are none.
func stepsSum(steps []setup.Step) string {
	if len(steps) == 0 {
		return ""
	}
	sum := sha256.Sum256(encodeSteps(steps))
	return hex.EncodeToString(sum[:])
}

func encodeSteps(steps []setup.Step) []byte {
	b, _ := json.Marshal(steps) // they are texts
	return b
}

// sameSteps refuses other steps than those that the node was made with.
func (r *record) sameSteps(items *[]string) error {
	if items == nil {
		return nil
	}
	steps, err := parseSteps(items)
	if err == nil && stepsSum(steps) != r.StepsSum {
		err = refused(provider.Failed, "the setup of a node cannot be changed; remove the node first")
	}
	return err
}

// keepSteps writes down what is to be done in a new node, before its record is.
func (l *life) keepSteps(steps []setup.Step) error {
	if len(steps) == 0 {
		return nil
	}
	if err := l.t.write(l.dir(), stepsFile, steps); err != nil {
		return err
	}
	l.services = newServices(l, steps)
	return nil
}

// readSteps are the steps of the node, as its record knows them.
func (l *life) readSteps() ([]setup.Step, error) {
	var steps []setup.Step
	if err := readJSON(l.dir(), stepsFile, &steps); err != nil {
		return nil, err
	}
	if stepsSum(steps) != l.snapshot().StepsSum {
		return nil, fmt.Errorf("%s in %s does not belong to the record of the node", stepsFile, l.dir())
	}
	return steps, nil
}

// runSetup runs our own program inside the node to begin a step, or to wait for its
// end, and calls each for what it reports. It ends with the program or with ctx.
func (t *Testbed) runSetup(ctx context.Context, id string, words []string, input []byte, each func(setup.Report)) error {
	c, err := t.machines.Agent(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	inside, in, err := pipe(false)
	if err != nil {
		return err
	}
	defer in.Close()
	out, insideOut, err := pipe(true)
	if err != nil {
		return errors.Join(err, inside.Close())
	}
	defer out.Close()
	p, err := agent.Exec(ctx, c, agent.Command{User: "root", Self: words}, []*os.File{inside, insideOut, insideOut})
	err = errors.Join(err, inside.Close(), insideOut.Close())
	if err != nil {
		return err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() {
		_ = in.SetDeadline(time.Unix(1, 0))
		_ = out.SetDeadline(time.Unix(1, 0))
	})()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if input != nil {
			_, _ = bytes.NewReader(input).WriteTo(in) // who does not read it does not begin
			in.Close()
		}
	}()
	err = setup.ReadReports(out, each)
	_ = in.SetDeadline(time.Unix(1, 0))
	<-written
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pipe is a pipe whose end of ours, the reading one or the other, does not block:
// waiting for a node must take no thread. The other end does, as programs expect.
func pipe(reading bool) (r, w *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	ours := ends[1]
	if reading {
		ours = ends[0]
	}
	err = unix.SetNonblock(ours, true)
	r, w = os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "pipe")
	if err != nil {
		return nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	return r, w, nil
}
