package simulated

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

func TestSetupThatCannotBeSimulated(t *testing.T) {
	b := setUp(t, "")
	for rule, item := range map[string]string{
		"not JSON":      `nonsense`,
		"no kind":       `{}`,
		"a number":      `{\"kind\":7}`,
		"unknown kind":  `{\"kind\":\"compile\"}`,
		"unknown key":   `{\"kind\":\"execute\",\"colour\":\"blue\"}`,
		"one operation": `{\"kind\":\"execute\",\"operation\":\"rest\"}`,
	} {
		for _, noop := range []bool{true, false} {
			changes, err := b.accept(noop, withSetup("pc1", "on", command, item))
			e, _ := changes["a"]["error"].(map[string]any)
			if err != nil || e["kind"] != "unsupported" || !strings.HasPrefix(e["message"].(string), "step 2 of setup ") {
				t.Errorf("%s, noop %v: %v, %v", rule, noop, changes, err)
			}
		}
	}
	b.expect(0, "a", "absent")
}

// staged returns a step of a stage, with more members.
func staged(stage int, more string) string {
	return fmt.Sprintf(`{\"kind\":\"execute\",\"stage\":%d,\"command\":\"true\"%s}`, stage, strings.ReplaceAll(more, `"`, `\"`))
}

func (b *bench) setStage(stage string) {
	b.t.Helper()
	b.mustSet(`[{"name":"a","should":{"setup_stage":"` + stage + `"}}]`)
	if got := b.getNode("a").Text(provider.AttrSetupStage); got != stage {
		b.t.Fatalf("setup_stage is %q, want %q", got, stage)
	}
}

const noTimes = "timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 1s, execute: 10s}\n"

func TestStages(t *testing.T) {
	b := setUp(t, noTimes)
	once := `{\"kind\":\"execute\",\"stage\":1,\"command\":\"exit 7 # to fail once\"}`
	disk := `{\"kind\":\"disk\",\"stage\":2,\"size\":100,\"fstype\":\"ext4\",\"install_path\":\"/srv\"}`
	data := `{\"kind\":\"userdata\",\"stage\":2,\"url\":\"data:,x\"}`
	b.mustSet(withSetup("pc1", "on", command, fails, staged(1, ""), once, staged(1, ""), disk, data))
	b.setStage("0")
	b.expectSteps(20*time.Second, "e:done e:failed1 e:waiting e:waiting e:waiting d:waiting u:waiting ready ")
	b.expectSteps(time.Hour, "e:done e:failed1 e:waiting e:waiting e:waiting d:waiting u:waiting ready ")
	b.setStage("1")
	b.expectSteps(0, "e:done e:failed1 e:running e:waiting e:waiting d:waiting u:waiting changing executing")
	b.expectSteps(20*time.Second, "e:done e:failed1 e:done e:failed1 e:waiting d:waiting u:waiting ready ")
	b.mustSet(`[{"name":"a","should":{"restart_serial":"1"}}]`) // begins no step
	b.expectSteps(time.Hour, "e:done e:failed1 e:done e:failed1 e:waiting d:waiting u:waiting ready ")
	before := provider.ObservedNode(b.getNode("a")).Services
	b.setStage("0")
	b.expectSteps(time.Hour, "e:done e:failed1 e:done e:failed1 e:waiting d:waiting u:waiting ready ")
	b.setStage("1")
	b.expectSteps(0, "e:done e:failed1 e:done e:running e:waiting d:waiting u:waiting changing executing")
	b.expectSteps(20*time.Second, "e:done e:failed1 e:done e:done e:done d:waiting u:waiting ready ")
	after := provider.ObservedNode(b.getNode("a")).Services
	if !before[2].Began.Equal(after[2].Began) || !after[3].Began.After(before[3].Ended) || !after[3].Ended.Equal(after[4].Began) {
		t.Errorf("times before %v and after %v", before, after)
	}
	b.setStage("2")
	b.expectSteps(19*time.Second, "e:done e:failed1 e:done e:done e:done d:done u:running changing running cloud-init")
	b.expectSteps(time.Second, "e:done e:failed1 e:done e:done e:done d:done u:done ready ")
	b.setStage("-1") // and all failed steps once more
	b.setStage("0")
	b.expectSteps(9*time.Second, "e:done e:running e:done e:done e:done d:done u:done ready ")
}

func TestStageFallsWhileStepRuns(t *testing.T) {
	b := setUp(t, noTimes)
	b.mustSet(withSetup("pc1", "on", command, staged(1, ""), staged(1, "")))
	b.setStage("1")
	b.expectSteps(5*time.Second, "e:running e:running e:waiting changing executing") // beside stage 0
	b.setStage("0")
	b.expectSteps(0, "e:running e:failed143 e:waiting changing executing")
	b.setStage("-1")
	b.expectSteps(0, "e:failed143 e:failed143 e:waiting ready ")
	b.setStage("0")
	b.setStage("1")
	b.expectSteps(20*time.Second, "e:done e:done e:done ready ")
	if got := provider.ObservedNode(b.getNode("a")).Services[0]; got.Ended.Sub(got.Began) != 10*time.Second {
		t.Errorf("the second run took from %v to %v", got.Began, got.Ended)
	}
}

func TestRunningStepFailsWithItsNode(t *testing.T) {
	for _, change := range []string{`"power":"off"`, `"restart_serial":"1"`} {
		b := setUp(t, noTimes)
		b.mustSet(withSetup("pc1", "on", command, command, staged(1, ""), staged(1, "")))
		b.now = b.now.Add(time.Second)
		b.mustSet(`[{"name":"a","should":{` + change + `}}]`)
		b.mustSet(`[{"name":"a","should":{"power":"on"}}]`)
		b.expectSteps(10*time.Second, "e:failed143 e:done e:waiting e:waiting ready ") // the next one goes on
		b.setStage("1")
		b.now = b.now.Add(time.Second)
		b.mustSet(strings.Replace(`[{"name":"a","should":{`+change+`}}]`, `"1"`, `"2"`, 1))
		b.mustSet(`[{"name":"a","should":{"power":"on"}}]`)
		b.expectSteps(time.Minute, "e:failed143 e:done e:failed143 e:waiting ready ") // but not in later stages
	}
}

func TestBackground(t *testing.T) {
	b := setUp(t, strings.Replace(noTimes, "10s", "1h", 1))
	b.mustSet(withSetup("pc1", "on", staged(0, `,"background":true`), staged(0, `,"background":false`), staged(1, ""), staged(1, `,"background":true`)))
	b.expectSteps(59*time.Minute, "e:done e:running e:waiting e:waiting changing executing")
	b.expectSteps(time.Minute, "e:done e:done e:waiting e:waiting ready ")
	b.setStage("1")
	b.expectSteps(59*time.Minute, "e:done e:done e:running e:waiting changing executing")
	b.expectSteps(time.Minute, "e:done e:done e:done e:done ready ")
}

func TestOperations(t *testing.T) {
	b := setUp(t, noTimes)
	operation := func(name string) string { return `,"operation":"` + name + `"` }
	b.mustSet(withSetup("pc1", "on", staged(0, operation("start")), staged(1, operation("start")), staged(0, operation("stop")), staged(1, operation("stop")), staged(0, operation("uninstall"))))
	b.expectSteps(10*time.Second, "e:done e:waiting e:waiting e:waiting e:waiting ready ")
	first := provider.ObservedNode(b.getNode("a")).Services[0]
	b.mustSet(`[{"name":"a","should":{"restart_serial":"1"}}]`)
	b.mustSet(`[{"name":"a","should":{"power":"off"}}]`)
	b.expectSteps(9*time.Second, "e:done e:waiting e:running e:waiting e:waiting changing executing")
	b.expectSteps(time.Second, "e:done e:waiting e:done e:waiting e:waiting ready ")
	b.mustSet(`[{"name":"a","should":{"power":"on"}}]`)
	b.expectSteps(0, "e:running e:waiting e:done e:waiting e:waiting changing executing")
	if again := provider.ObservedNode(b.getNode("a")).Services[0]; again.Began.Sub(first.Began) != 20*time.Second {
		t.Errorf("the start step began at %v and then at %v", first.Began, again.Began)
	}
	b.now = b.now.Add(time.Minute)
	b.mustSet(`[{"name":"a","should":{"power":"off","setup_stage":"-1"}}]`)
	b.expectSteps(0, "e:done e:waiting e:done e:waiting e:waiting ready ")
	b.mustSet(`[{"name":"a","should":{"power":"on","setup_stage":"1"}}]`)
	b.expectSteps(20*time.Second, "e:done e:done e:done e:waiting e:waiting ready ")
	b.mustSet(`[{"name":"a","should":{"ensure":"absent"}}]`)
	b.expectSteps(10*time.Second, "e:done e:done e:done e:waiting e:done changing wiping")
	b.expect(time.Second, "a", "absent")

	// At the end of the lease.
	b.mustSet(withSetup("pc1", "on", staged(0, operation("uninstall"))))
	b.mustSet(`[{"name":"a","should":{"ensure":"absent","setup_stage":"-1"}}]`)
	b.expect(time.Second, "a", "absent")
}

func TestOperationsAreBounded(t *testing.T) {
	b := setUp(t, strings.Replace(noTimes, "10s", "40s", 1))
	stop := staged(0, `,"operation":"stop"`)
	b.mustSet(withSetup("pc1", "on", stop, stop, stop))
	b.mustSet(`[{"name":"a","should":{"power":"off"}}]`)
	b.expectSteps(time.Minute-time.Millisecond, "e:done e:running e:waiting changing executing")
	b.expectSteps(time.Millisecond, "e:done e:failed143 e:waiting ready ")
}

func TestMisbehaviourEndsWithReruns(t *testing.T) {
	b := setUp(t, noTimes+"components: [{name: pc1, behaviour: fail, on: [execute], times: 1}]")
	b.mustSet(withSetup("pc1", "on", command, staged(1, "")))
	b.expectSteps(10*time.Second, "e:failed1 e:waiting ready ")
	b.setStage("-1")
	b.setStage("0")
	b.expectSteps(10*time.Second, "e:done e:waiting ready ")
}

func TestRefusedStages(t *testing.T) {
	b := setUp(t, noTimes)
	b.mustSet(withSetup("pc1", "on", command))
	for _, stage := range []string{"", "one", "-2", "1.5"} {
		changes, err := b.accept(false, `[{"name":"a","should":{"setup_stage":"`+stage+`"}}]`)
		if e, _ := changes["a"]["error"].(map[string]any); err != nil || e["kind"] != "failed" {
			t.Errorf("%q: %v, %v", stage, changes, err)
		}
	}
}

func TestStepsOfRelease01(t *testing.T) {
	b := setUp(t, noTimes)
	b.mustSet(withSetup("pc1", "on", command))
	log := filepath.Join(b.state, "log")
	text := `{"node":{"name":"a","component":"pc1","power":"on","doing":"make","ready_at":"2026-01-02T03:04:05Z","steps_at":"2026-01-02T03:04:05Z",` +
		`"steps":[{"kind":"install","lasts":1000000000},{"kind":"execute","lasts":2000000000,"exit":1,"fails":"no"}]}}` + "\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.expectSteps(2*time.Second, "i:done e:running changing executing")
	b.mustSet(`[{"name":"a","should":{"users":["{}"]}}]`)
	b.expectSteps(time.Second, "i:done e:failed1 ready ")
}
