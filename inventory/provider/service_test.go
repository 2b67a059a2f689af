package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/rspec/step"
)

func TestNewNode(t *testing.T) {
	s := &am.Sliver{Desired: am.Desired{Present: true}, Features: []am.Feature{{Feature: "memory.size", Value: "2G"}}, Setup: []step.Step{
		{Kind: step.Install, URL: "https://example.org/a?b=<&>", InstallPath: "/opt", FileType: "tar.gz"},
		{Kind: step.Install, URL: "data:,x", InstallPath: "~/x"},
		{Kind: step.Execute, Shell: "bash", Command: "echo \"é\"\n\tdone"},
	}}
	steps := []string{
		`{"kind":"install","url":"https://example.org/a?b=<&>","install_path":"/opt","file_type":"tar.gz"}`,
		`{"kind":"install","url":"data:,x","install_path":"~/x"}`,
		`{"kind":"execute","shell":"bash","command":"echo \"é\"\n\tdone"}`,
	}
	if diff := cmp.Diff(Resource{AttrSetup: steps, AttrGranted: []string{"memory.size=2G"}}, NewNode(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	later := DesiredNode(s, "pc1", "web", nil)
	if later[AttrSetup] != nil || later[AttrGranted] != nil {
		t.Errorf("an existing node gets %v", later)
	}
	if got := NewNode(&am.Sliver{Desired: s.Desired}); len(got) != 0 {
		t.Errorf("without steps and features: %v", got)
	}
	s.Desired.Present = false
	if got := NewNode(s); len(got) != 0 {
		t.Errorf("a node that must not exist gets %v", got)
	}
}

func TestReportsOfServices(t *testing.T) {
	for _, tt := range []struct {
		rule, item string
		want       am.StepReport
	}{
		{"done", `{"kind":"install","state":"done","exit":0,"output":"a\n"}`, am.StepReport{State: am.StepDone, Output: "a"}},
		{"failed", `{"kind":"execute","state":"failed","exit":-7,"message":" no\nway ","output":"a\n\tb\n\n"}`, am.StepReport{State: am.StepFailed, Exit: -7, Message: "no way", Output: "a\n\tb"}},
		{"running: no output yet", `{"kind":"execute","state":"running","exit":3,"message":"45 %","output":"x"}`, am.StepReport{State: am.StepRunning, Message: "45 %"}},
		{"waiting", `{"state":"waiting"}`, am.StepReport{State: am.StepWaiting}},
		{"times", `{"state":"done","began":"2030-01-02T03:04:05Z","ended":"2030-01-02T05:04:06.5+02:00"}`, am.StepReport{State: am.StepDone,
			Began: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Ended: time.Date(2030, 1, 2, 3, 4, 6, 5e8, time.UTC)}},
		{"wrong times", `{"state":"done","began":"yesterday","ended":7,"output":"x"}`, am.StepReport{State: am.StepDone, Output: "x"}},
		{"times outside of the calendar", `{"state":"done","began":"0000-01-01T00:00:00+23:00","ended":"9999-12-31T23:59:59-23:00"}`, am.StepReport{State: am.StepDone}},
		{"times of a step that waits", `{"state":"waiting","began":null,"ended":""}`, am.StepReport{State: am.StepWaiting}},
		{"another word", `{"state":"well","message":"x"}`, am.StepReport{}},
		{"not an object", `["done"]`, am.StepReport{}},
		{"not JSON", `{"state":"done"`, am.StepReport{}},
		{"a wrong type", `{"state":"done","exit":"0"}`, am.StepReport{}},
		{"an exit beyond all", `{"state":"failed","exit":9999999999999}`, am.StepReport{State: am.StepFailed, Exit: 1<<31 - 1}},
		{"for a terminal", `{"state":"done","output":"1 %\r2 %\r\nok\u001b[0m\u0000\u0007\ufffe"}`, am.StepReport{State: am.StepDone, Output: "1 %\n2 %\nok[0m"}},
		{"a long message", `{"state":"failed","message":"` + strings.Repeat("é", 5000) + `"}`, am.StepReport{State: am.StepFailed, Message: strings.Repeat("é", maxStepMessage/2) + "…"}},
		{"the end of a long output", `{"state":"failed","output":"` + strings.Repeat("é", 5000) + `z"}`, am.StepReport{State: am.StepFailed, Output: strings.Repeat("é", maxOutput/2-1) + "z"}},
	} {
		got := ObservedNode(Resource{AttrServices: []string{tt.item}}).Services
		if diff := cmp.Diff([]am.StepReport{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
		}
	}
	if got := ObservedNode(Resource{}).Services; got != nil {
		t.Errorf("of none: %v", got)
	}
}

// TestOutputsAreBounded fills a node's services with output, the failed ones last.
func TestOutputsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 3*maxOutput)
	var items []string
	for i := range 100 {
		state := "done"
		if i >= 90 {
			state = "failed"
		}
		items = append(items, `{"state":"`+state+`","message":"why","output":"`+long+`"}`)
	}
	sum := 0
	for i, r := range ObservedNode(Resource{AttrServices: items}).Services {
		sum += len(r.Message) + len(r.Output)
		if i >= 90 && len(r.Output) != maxOutput {
			t.Errorf("step %d failed, and of its output %d bytes are left", i, len(r.Output))
		}
		if r.State == "" {
			t.Errorf("step %d has lost its state", i)
		}
	}
	if sum > maxOutputs || sum < maxOutputs-maxOutput {
		t.Errorf("%d bytes are kept, at most %d", sum, maxOutputs)
	}
}

func TestEmulators(t *testing.T) {
	for item, want := range map[string]string{
		`{"client_id":"a","emulator":"tbf+netem"}`:                            "tbf+netem",
		`{"client_id":"a","emulator":""}`:                                     "",
		`{"client_id":"a","emulator":"TBF"}`:                                  "",
		`{"client_id":"a","emulator":"a b"}`:                                  "",
		`{"client_id":"a","emulator":7,"mac":7}`:                              "",
		`{"client_id":"a","emulator":"` + strings.Repeat("x", 65) + `"}`:      "",
		`{"emulator":"tbf"}`:                                                  "",
		`{"client_id":"a","emulator":"?"}{"client_id":"a"}`:                   "",
		`{"client_id":"a","emulator":"vswitch","rx_packets":7,"dropped":1.5}`: "vswitch",
	} {
		if got := ObservedNode(Resource{AttrInterfaces: []string{item}}).Emulators["a"]; got != want {
			t.Errorf("%s: %q, want %q", item, got, want)
		}
	}
}

// FuzzObservedNode checks that services and interfaces of any report are within their
// limits.
func FuzzObservedNode(f *testing.F) {
	f.Add(`{"kind":"install","state":"failed","exit":2,"message":"404 Not\nFound","output":"a\r\nb\n"}`, `{"client_id":"a","mac":"02:00:00:00:00:01","emulator":"tbf"}`)
	f.Add(`{"state":"done","output":"\u001b[2J\ud800"}`, `{"client_id":"a","emulator":{}}`)
	f.Fuzz(func(t *testing.T, service, wire string) {
		items := make([]string, 40)
		for i := range items {
			items[i] = service
		}
		o := ObservedNode(Resource{AttrServices: items, AttrInterfaces: []string{wire, wire}})
		sum := 0
		for _, r := range o.Services {
			sum += len(r.Message) + len(r.Output)
			if !utf8.ValidString(r.Message+r.Output) || strings.ContainsAny(r.Message, "\n\r") || strings.ContainsAny(r.Output, "\r\x00\x1b") {
				t.Fatalf("%+v", r)
			}
			if r.State == "" && r != (am.StepReport{}) {
				t.Fatalf("without a state: %+v", r)
			}
		}
		if len(o.Services) != len(items) || sum > maxOutputs {
			t.Fatalf("%d services, %d bytes", len(o.Services), sum)
		}
		if len(o.MACs) > 1 || len(o.Emulators) > 1 {
			t.Fatalf("%v, %v", o.MACs, o.Emulators)
		}
		// Stored values parse to the same values, otherwise each poll would find a
		// change.
		var again am.Observed
		b, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(b, &again)
		}
		if diff := cmp.Diff(o, again); err != nil || diff != "" {
			t.Fatalf("%v (-stored +read):\n%s", err, diff)
		}
	})
}
