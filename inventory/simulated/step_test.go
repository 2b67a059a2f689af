package simulated

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

const (
	archive = `{\"kind\":\"install\",\"url\":\"http://example.org/a.tgz\",\"install_path\":\"/local\"}`
	broken  = `{\"kind\":\"install\",\"url\":\"http://example.org/fail.tgz\",\"install_path\":\"/local\"}`
	command = `{\"kind\":\"execute\",\"shell\":\"sh\",\"command\":\"true\"}`
	fails   = `{\"kind\":\"execute\",\"shell\":\"sh\",\"command\":\"exit 7 # to fail\"}`
)

// withSetup returns an update that creates node a on a component, with services.
func withSetup(component, power string, steps ...string) string {
	return fmt.Sprintf(`[{"name":"a","should":{"ensure":"present","component":%q,"power":%q,"setup":["%s"]}}]`, component, power, strings.Join(steps, `","`))
}

// stepStates returns the states of a's services, and a's message.
func (b *bench) stepStates() string {
	b.t.Helper()
	r := b.getNode("a")
	var all []string
	for _, item := range r.List(provider.AttrServices) {
		var x struct {
			Kind, State string
			Exit        int
		}
		if err := json.Unmarshal([]byte(item), &x); err != nil {
			b.t.Fatal(err)
		}
		text := x.Kind[:1] + ":" + x.State
		if x.Exit != 0 {
			text += fmt.Sprint(x.Exit)
		}
		all = append(all, text)
	}
	return strings.Join(append(all, r.Text(provider.AttrState), r.Text(provider.AttrMessage)), " ")
}

func (b *bench) expectSteps(after time.Duration, want string) {
	b.t.Helper()
	b.now = b.now.Add(after)
	if got := b.stepStates(); got != want {
		b.t.Fatalf("at %s: %q, want %q", b.now.Format("05.000"), got, want)
	}
}

func TestServicesRunAtFirstStart(t *testing.T) {
	b := setUp(t, "")
	b.mustSet(withSetup("pc1", "off", archive, broken, command, fails))
	b.expectSteps(2*time.Second, "i:waiting i:waiting e:waiting e:waiting ready ")
	b.mustSet(`[{"name":"a","should":{"power":"on"}}]`)
	b.expectSteps(1499*time.Millisecond, "i:waiting i:waiting e:waiting e:waiting changing booting")
	b.expectSteps(time.Millisecond, "i:running i:waiting e:waiting e:waiting changing installing")
	b.expectSteps(time.Second, "i:done i:running e:waiting e:waiting changing installing")
	b.expectSteps(time.Second, "i:done i:failed1 e:running e:waiting changing executing")
	b.expectSteps(300*time.Millisecond, "i:done i:failed1 e:done e:running changing executing")
	b.expectSteps(300*time.Millisecond, "i:done i:failed1 e:done e:failed1 ready ")
	o := provider.ObservedNode(b.getNode("a"))
	if len(o.Services) != 4 || !strings.Contains(o.Services[1].Message, "simulated") || o.Services[0].Output == "" {
		t.Errorf("a manager would read %+v", o.Services)
	}
	// Not again when the same is requested once more.
	b.mustSet(`[{"name":"a","should":{"restart_serial":"1"}}]`)
	b.expectSteps(time.Second, "i:done i:failed1 e:done e:failed1 changing rebooting")
	b.mustSet(withSetup("pc1", "on", archive))
	b.expectSteps(time.Second, "i:done i:failed1 e:done e:failed1 ready ")
}

func TestLongCommandDoesNotDelayReady(t *testing.T) {
	b := setUp(t, "timing: {make: 0s, start: 0s, execute: 1h}")
	b.mustSet(withSetup("pc1", "on", command))
	b.expectSteps(0, "e:running changing executing")
	b.expectSteps(patience, "e:running ready ")
	b.expectSteps(time.Hour, "e:done ready ")
}

func TestMisbehaviourInServices(t *testing.T) {
	b := setUp(t, "timing: {make: 0s, start: 0s}\ncomponents: [{name: pc1, behaviour: fail, on: [install], times: 1}, {name: pc2, behaviour: slow, on: [execute]}, {name: pc3, behaviour: fail, on: [make]}]")
	for _, tt := range []struct{ component, after, want string }{
		{"pc1", "1300ms", "i:failed1 e:done ready "},
		{"pc1", "1300ms", "i:done e:done ready "}, // the second time
		{"pc2", "1300ms", "i:done e:running changing executing"},
		{"pc3", "1300ms", "i:waiting e:waiting failed pc3 could not be installed; this failure is simulated"},
	} {
		b.mustSet(withSetup(tt.component, "on", archive, command))
		after, err := time.ParseDuration(tt.after)
		if err != nil {
			t.Fatal(err)
		}
		b.expectSteps(after, tt.want)
		b.mustSet(`[{"name":"a","should":{"ensure":"absent"}}]`)
		b.expect(time.Minute, "a", "absent")
	}
}

func TestInvalidSetup(t *testing.T) {
	b := setUp(t, "timing: {make: 0s, start: 0s}")
	b.mustSet(withSetup("pc1", "on", "nonsense", `{\"kind\":7}`, command))
	b.expectSteps(time.Second, "e:failed1 e:failed1 e:done ready ")
}
