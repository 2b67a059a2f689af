package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// The test binary is also the provider under test, as in package provider: a
// link to it is a provider of nodes with one fault, named in NAME.fault.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "ral_action=") {
		if err := act(strings.TrimPrefix(os.Args[1], "ral_action=")); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit would wait a second for the race detector
	}
	os.Exit(m.Run())
}

const metadata = `
provider:
  type: node
  invoke: json
  suitable: true
  timeouts: {set: 2s}
  attributes:
    name: {}
    ensure: {type: "enum[present,absent]"}
    component: {}
    power: {type: "enum[on,off]"}
    restart_serial: {}
    users: {type: "array[string]"}
    interfaces: {type: "array[string]"}
    login: {type: "array[string]", kind: r}
    proxy: {kind: r}
    state: {type: "enum[pending,changing,ready,failed]", kind: r}
    message: {kind: r}
`

// double lays down a provider with a fault, its metadata changed from old to new.
func double(t *testing.T, fault, old, new string) *provider.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(metadata, old) {
		t.Fatalf("the metadata has no %q", old)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"double.fault": fault, "double.yaml": strings.Replace(metadata, old, new, 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "double.prov")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	p, err := provider.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func act(action string) error {
	fault, err := os.ReadFile("double.fault")
	if err != nil {
		return err
	}
	nodes := map[string]map[string]any{}
	if text, err := os.ReadFile("double.state"); err == nil {
		if err := json.Unmarshal(text, &nodes); err != nil {
			return err
		}
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var answer map[string]any
	if action == "get" {
		answer, err = actGet(string(fault), nodes)
	} else {
		answer, err = actSet(string(fault), nodes, input)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func actGet(fault string, nodes map[string]map[string]any) (map[string]any, error) {
	resources := []map[string]any{}
	for _, n := range nodes {
		n["login"] = []string{"pc1.example.org:22"}
		switch fault {
		case "no port":
			n["login"] = []string{"pc1.example.org"}
		case "no address":
			n["interfaces"] = []string{`{"client_id":"node0:if0","link":"link0","slice":"urn:publicid:IDN+example.org+slice+slice0","addresses":["10.128.0.1/24"],"mac":"eth0"}`}
		case "unplugged":
			delete(n, "interfaces")
		case "no user":
			n["proxy"] = "gate.example.org:22"
		case "never ready":
			n["state"] = "changing"
		case "fails":
			n["state"], n["message"] = "failed", "no disk"
		}
		resources = append(resources, n)
	}
	if fault == "get fails" {
		return nil, fmt.Errorf("out of order")
	}
	return map[string]any{"resources": resources}, nil
}

func actSet(fault string, nodes map[string]map[string]any, input []byte) (map[string]any, error) {
	var in struct {
		Updates []struct {
			Name       string
			Is, Should map[string]any
		}
		Ral struct{ Noop bool }
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if in.Ral.Noop && fault != "noop" {
		return map[string]any{"derive": true}, nil
	}
	for _, u := range in.Updates {
		if u.Should["ensure"] == "absent" {
			if _, there := nodes[u.Name]; !there && fault == "strict" {
				return map[string]any{"changes": []any{map[string]any{"name": u.Name, "error": map[string]string{"message": "not there"}}}}, nil
			}
			delete(nodes, u.Name)
			continue
		}
		if fault == "refuses" {
			return map[string]any{"error": map[string]string{"kind": "forbidden", "message": "not you"}}, nil
		}
		n := u.Is
		maps.Copy(n, u.Should)
		if fault == "deaf" {
			n["restart_serial"] = "0"
		}
		nodes[u.Name] = n
	}
	if fault == "forgets" {
		clear(nodes)
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile("double.state", text, 0o600); err != nil {
		return nil, err
	}
	switch fault {
	case "mute":
		return map[string]any{"changes": []any{}}, nil
	case "empty":
		return map[string]any{}, nil
	case "slow":
		time.Sleep(time.Minute)
	}
	return map[string]any{"derive": true}, nil
}
