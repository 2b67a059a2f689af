package simulated

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// operation is something that a set makes a node do.
type operation string

const (
	opNone    operation = ""
	opMake    operation = "make"
	opStart   operation = "start"
	opStop    operation = "stop"
	opRestart operation = "restart"
	opUsers   operation = "users"
	opRemove  operation = "remove"
)

var operations = []operation{opMake, opStart, opStop, opRestart, opUsers, opRemove}

// behaviour is a way to go wrong.
type behaviour string

const (
	well   behaviour = ""
	slow   behaviour = "slow"
	fail   behaviour = "fail"
	refuse behaviour = "refuse"
	hang   behaviour = "hang"
	die    behaviour = "die"
	lose   behaviour = "lose"
)

var behaviours = []behaviour{slow, fail, refuse, hang, die, lose}

// settings is NAME.yaml without the metadata.
type settings struct {
	Provider   yaml.Node              `yaml:"provider"` // the manager's business
	Domain     string                 `yaml:"domain"`
	Timing     map[operation]duration `yaml:"timing"`
	Jitter     float64                `yaml:"jitter"`
	Seed       uint64                 `yaml:"seed"`
	SlowFactor float64                `yaml:"slow_factor"`
	LoseAfter  duration               `yaml:"lose_after"`
	Components []component            `yaml:"components"`
	Chance     map[behaviour]float64  `yaml:"chance"`
}

// component is one that misbehaves.
type component struct {
	Name      string      `yaml:"name"`
	Behaviour behaviour   `yaml:"behaviour"`
	On        []operation `yaml:"on"`
	Times     int         `yaml:"times"`
}

type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 || v > 24*time.Hour {
		return fmt.Errorf("line %d: %q is not a time up to a day, such as 1500ms", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

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
		},
		Jitter:     0.2,
		SlowFactor: 10,
		LoseAfter:  duration(30 * time.Second),
	}
}

// readSettings reads the file over the defaults; no file is all defaults.
func readSettings(path string) (settings, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return defaults(), nil
	}
	if err != nil {
		return settings{}, err
	}
	s, err := parseSettings(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return s, err
}

func parseSettings(text []byte) (settings, error) {
	s := defaults()
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	return s, s.validate()
}

func (s *settings) validate() error {
	for op := range s.Timing {
		if !slices.Contains(operations, op) {
			return fmt.Errorf("timing: %q is none of %v", op, operations)
		}
	}
	for _, c := range s.Components {
		if c.Name == "" || !slices.Contains(behaviours, c.Behaviour) {
			return fmt.Errorf("components: behaviour %q of %q is none of %v", c.Behaviour, c.Name, behaviours)
		}
		for _, op := range c.On {
			if !slices.Contains(operations, op) {
				return fmt.Errorf("components: %s: %q is none of %v", c.Name, op, operations)
			}
		}
	}
	sum := 0.0
	for b, p := range s.Chance {
		if !slices.Contains(behaviours, b) {
			return fmt.Errorf("chance: %q is none of %v", b, behaviours)
		}
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("chance: %s is not from 0 to 1", b)
		}
		sum += p
	}
	switch {
	case sum > 1:
		return errors.New("chance: together more than 1")
	case !(s.Jitter >= 0 && s.Jitter <= 1):
		return errors.New("jitter is not from 0 to 1")
	case !(s.SlowFactor >= 1 && s.SlowFactor <= 1e6):
		return errors.New("slow_factor is not from 1 to 1000000")
	case s.Domain == "":
		return errors.New("domain is empty")
	}
	return nil
}

// misbehaves tells whether the component was set up to go wrong in op, having
// done so before a number of times.
func (c component) misbehaves(op operation, before int) bool {
	if c.Times > 0 && before >= c.Times {
		return false
	}
	if len(c.On) == 0 {
		return op != opRemove
	}
	return slices.Contains(c.On, op)
}
