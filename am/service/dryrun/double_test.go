package dryrun_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

const metadata = `
provider:
  type: node
  invoke: json
  suitable: true
  parallel: 4
  probe: PROBE
  timeouts: {set: 2m}
  attributes:
    name: {}
    ensure: {type: "enum[present,absent]"}
    component: {}
    power: {type: "enum[on,off]"}
    client_id: {}
    login: {type: "array[string]", kind: r}
`

// lay puts a provider into dir: a link to the test binary and its metadata.
func lay(t *testing.T, dir, name string, probe bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(probe)
	if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(strings.Replace(metadata, "PROBE", string(text), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, name+provider.Suffix)); err != nil {
		t.Fatal(err)
	}
}

// behaviour is how a provider goes wrong.
type behaviour struct {
	// Refuses are the kinds of error for components, in a dry run and for real.
	Refuses map[string]string
	// Dry is how each dry run goes wrong: "exit", "top" (a top-level error), "hang", or
	// "wait", which lasts until behave is called again.
	Dry string
	// Kills is a component that kills every dry run it is in.
	Kills string
	// Names refuses a node that has the client_id of another one.
	Names bool
	// Stays delays the removal of nodes until behave is called again.
	Stays bool
}

// twin reports whether another node has the client_id of the one called name.
func twin(nodes map[string]map[string]any, name string, id any) bool {
	for other, n := range nodes {
		if other != name && n["client_id"] == id {
			return true
		}
	}
	return false
}

func (s *site) behave(name string, b behaviour) {
	s.t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.dir, name+".behaviour")
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		s.t.Fatal(err)
	}
}

// seen is one set of a provider, and its answer.
type seen struct {
	Noop       bool
	Components []string
	Answer     string
}

// sets are what the provider was asked to set.
func (s *site) sets(name string) (all []seen) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name+".seen"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var x seen
		if err := json.Unmarshal(line, &x); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func must(err error) {
	if err != nil && !os.IsNotExist(err) {
		io.WriteString(os.Stderr, "error: "+err.Error())
		syscall.Exit(1)
	}
}

// behaves reads the behaviour of the provider whose files begin with stem.
func behaves(stem string) (b behaviour) {
	text, err := os.ReadFile(stem + ".behaviour")
	if must(err); err == nil {
		must(json.Unmarshal(text, &b))
	}
	return b
}

// removes reports whether the input of a call is of a set that removes nodes for real.
func removes(input []byte) bool {
	return bytes.Contains(input, []byte(`"ensure":"absent"}`)) && bytes.Contains(input, []byte(`"noop":false`))
}

// act is one call of the provider.
func act(action string) {
	stem := strings.TrimSuffix(os.Args[0], provider.Suffix)
	input, err := io.ReadAll(os.Stdin)
	must(err)
	for removes(input) && behaves(stem).Stays {
		time.Sleep(10 * time.Millisecond)
	}
	lock, err := os.OpenFile(stem+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	must(err)
	must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	b := behaves(stem)
	nodes := map[string]map[string]any{}
	text, err := os.ReadFile(stem + ".state")
	if must(err); err == nil {
		must(json.Unmarshal(text, &nodes))
	}
	if action == "get" {
		resources := []any{}
		for _, n := range nodes {
			resources = append(resources, n)
		}
		must(json.NewEncoder(os.Stdout).Encode(map[string]any{"resources": resources}))
		syscall.Exit(0)
	}
	var in struct {
		Updates []struct {
			Name       string
			Is, Should map[string]any
		}
		Ral struct{ Noop bool }
	}
	must(json.Unmarshal(input, &in))
	saw := seen{Noop: in.Ral.Noop}
	changes := []any{}
	there := maps.Clone(nodes)
	for _, u := range in.Updates {
		if u.Should["ensure"] == "absent" {
			delete(there, u.Name)
		}
	}
	for _, u := range in.Updates {
		node := maps.Clone(u.Is)
		maps.Copy(node, u.Should)
		component, _ := node["component"].(string)
		saw.Components = append(saw.Components, component)
		if saw.Noop && component == b.Kills && component != "" {
			must(syscall.Kill(syscall.Getpid(), syscall.SIGKILL))
		}
		if kind, ok := b.Refuses[component]; ok && u.Should["ensure"] == "present" {
			changes = append(changes, map[string]any{"name": u.Name, "error": map[string]any{"kind": kind, "message": component + " is " + kind}})
			continue
		}
		if b.Names && u.Should["ensure"] == "present" && twin(there, u.Name, node["client_id"]) {
			changes = append(changes, map[string]any{"name": u.Name, "error": map[string]any{"kind": "failed", "message": "two nodes have the same name; rename one"}})
			continue
		}
		if u.Should["ensure"] == "absent" {
			delete(nodes, u.Name)
			continue
		}
		if node["login"] = []string{}; node["power"] == "on" {
			node["login"] = []string{component + ".example.org:22"}
		}
		nodes[u.Name] = node
	}
	answer := map[string]any{"derive": true, "changes": changes}
	way := ""
	if saw.Noop {
		way = b.Dry
	}
	if way == "top" {
		answer["error"] = map[string]any{"kind": "forbidden", "message": "the rack is locked"}
	}
	text, err = json.Marshal(answer)
	must(err)
	saw.Answer = string(text)
	line, err := json.Marshal(saw)
	must(err)
	f, err := os.OpenFile(stem+".seen", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.Write(append(line, '\n'))
	must(err)
	if !saw.Noop {
		state, err := json.Marshal(nodes)
		must(err)
		must(os.WriteFile(stem+".new", state, 0o600))
		must(os.Rename(stem+".new", stem+".state"))
	}
	lock.Close()
	switch way {
	case "hang":
		time.Sleep(time.Hour)
	case "wait":
		for b.Dry == "wait" {
			time.Sleep(10 * time.Millisecond)
			b = behaves(stem)
		}
	}
	_, err = os.Stdout.Write(text)
	must(err)
	if way == "exit" {
		syscall.Exit(1)
	}
	syscall.Exit(0)
}
