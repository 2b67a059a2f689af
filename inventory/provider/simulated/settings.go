package simulated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"patchbay/inventory/provider"
)

type operation string

const (
	opNone    operation = ""
	opMake    operation = "make"
	opStart   operation = "start"
	opStop    operation = "stop"
	opRestart operation = "restart"
	opUsers   operation = "users"
	opRemove  operation = "remove"
	opInstall operation = "install"
	opExecute operation = "execute"
	// opProbe is a dry run of any other operation.
	opProbe operation = "probe"
)

var (
	operations = []operation{opMake, opStart, opStop, opRestart, opUsers, opRemove, opInstall, opExecute}
	// occasions are the operations in which a component may misbehave.
	occasions = append(slices.Clone(operations), opProbe)
	kinds     = []provider.Kind{provider.Unknown, provider.Forbidden, provider.Unsupported, provider.Failed}
)

type behaviour string

const (
	normal behaviour = ""
	slow   behaviour = "slow"   // the operation takes SlowFactor times as long as normally
	fail   behaviour = "fail"   // the operation is accepted and then fails
	refuse behaviour = "refuse" // the answer is an error
	hang   behaviour = "hang"
	die    behaviour = "die"
	lose   behaviour = "lose" // the node vanishes LoseAfter after the end of the operation
)

var behaviours = []behaviour{slow, fail, refuse, hang, die, lose}

type settings struct {
	Domain     string
	Timing     map[operation]duration
	Jitter     float64
	Seed       uint64
	SlowFactor float64
	LoseAfter  duration
	Components []component
	Chance     map[behaviour]float64
}

type component struct {
	Name      string
	Behaviour behaviour
	On        []operation   // operations that misbehave; empty means all except remove and probe
	Times     int           // number of operations that misbehave; 0 means all
	Kind      provider.Kind // error kind of a refusal; empty means forbidden
}

type duration time.Duration

func defaults() settings {
	return settings{
		Domain: DefaultDomain,
		Timing: map[operation]duration{
			opMake:    duration(2 * time.Second),
			opStart:   duration(1500 * time.Millisecond),
			opStop:    duration(500 * time.Millisecond),
			opRestart: duration(2 * time.Second),
			opUsers:   duration(200 * time.Millisecond),
			opRemove:  duration(500 * time.Millisecond),
			opInstall: duration(time.Second),
			opExecute: duration(300 * time.Millisecond),
		},
		Jitter:     0.2,
		SlowFactor: 10,
		LoseAfter:  duration(30 * time.Second),
	}
}

// readSettings reads the settings at path. A missing setting has its default, and without a file all have. The
// error is one line, and names the file without its folder, because experimenters may see it.
func readSettings(path string) (settings, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return defaults(), nil
	}
	file := filepath.Base(path)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		return settings{}, fmt.Errorf("%s: cannot be read: %w", file, err)
	}
	return parseSettings(text, file)
}

// probeBehaviour returns the entry for dry runs on the component; ok is false if there is none.
func (s *settings) probeBehaviour(name string) (c component, ok bool) {
	for _, c := range s.Components {
		if c.Name == name && slices.Contains(c.On, opProbe) {
			return c, true
		}
	}
	return component{}, false
}

// isMisbehaving reports whether the component misbehaves in the operation. count is the number of earlier operations
// in which it misbehaved.
func (c component) isMisbehaving(op operation, count int) bool {
	if c.Times > 0 && count >= c.Times {
		return false
	}
	if len(c.On) == 0 {
		return op != opRemove
	}
	return slices.Contains(c.On, op)
}
