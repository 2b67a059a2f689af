package providertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/executable"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// The test binary is also the tested provider, as in package provider: a link to it is a
// provider of nodes with one fault, named in NAME.fault.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "ral_action=") {
		input, err := io.ReadAll(os.Stdin)
		if err == nil {
			err = callDouble(context.Background(), &executable.Command{Args: os.Args[1:], Stdin: input, Stdout: os.Stdout, Stderr: os.Stderr})
		}
		if err != nil {
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit would wait a second for the race detector
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}

// exitError is the error of an executable that ended with status 1.
var exitError = sync.OnceValue(func() error { return exec.Command("false").Run() })

// callDouble runs one call of the double, and writes its error to standard error.
func callDouble(ctx context.Context, c *executable.Command) error {
	d, err := readDouble(ctx, c)
	if d != nil && d.lock != nil {
		defer d.lock.Close()
	}
	if err == nil {
		err = d.act(strings.TrimPrefix(c.Args[0], "ral_action="))
	}
	if err != nil {
		fmt.Fprintln(c.Stderr, "error:", err)
	}
	return err
}

const metadata = `
provider:
  type: node
  invoke: json
  suitable: true
  timeouts: {get: 20s, set: 20s}
  parallel: 4
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
    capabilities: {type: "array[string]", kind: r}
    setup: {type: "array[string]", kind: w}
    setup_stage: {}
    change_serial: {}
    services: {type: "array[string]", kind: r}
`

// installDouble creates a provider with a fault, and replaces old by new in its metadata. Its
// calls run in this process. In check-full, and if the fault is a process that is left behind,
// each call is a process.
func installDouble(t *testing.T, fault, old, new string) *provider.Provider {
	t.Helper()
	p := installProgram(t, fault, old, new)
	if fault != "clings" && !require.Long() {
		p.Execute = func(ctx context.Context, c *executable.Command) (bool, error) {
			time.Sleep(time.Millisecond) // so that calls can be killed before they do anything
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			err := callDouble(ctx, c)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err() // it is killed
			case err != nil:
				err = exitError()
			}
			return false, err
		}
	}
	return p
}

// installProgram does the same as installDouble, and each call is a process.
func installProgram(t *testing.T, fault, old, new string) *provider.Provider {
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

type object = map[string]any

// double is one call of the provider.
type double struct {
	ctx   context.Context
	c     *executable.Command
	fault string
	nodes map[string]object
	pause time.Duration // between two steps of a call, for faults that need a kill there
	lock  *os.File      // held until the end of the call, or nil
}

func readDouble(ctx context.Context, c *executable.Command) (*double, error) {
	d := &double{ctx: ctx, c: c, nodes: map[string]object{}, pause: 20 * time.Millisecond}
	fault, err := os.ReadFile(d.file("fault"))
	if err != nil {
		return nil, err
	}
	d.fault = string(fault)
	if d.is("torn") { // readers wait for writers, but still read the incomplete state of a killed one
		if d.lock, err = os.OpenFile(d.file("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX); err != nil {
			return d, err
		}
	}
	if text, err := os.ReadFile(d.file("state")); err == nil {
		return d, json.Unmarshal(text, &d.nodes)
	}
	return d, nil
}

// file returns the path of a file of the double.
func (d *double) file(suffix string) string { return filepath.Join(d.c.Dir, "double."+suffix) }

// sleep fails if the call is killed meanwhile.
func (d *double) sleep(pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}

func (d *double) is(fault string) bool { return d.fault == fault }

func (d *double) act(action string) error {
	input := d.c.Stdin
	switch {
	case d.is("talks"):
		fmt.Fprintln(d.c.Stderr, "now at work")
	case d.is("floods"):
		fmt.Fprint(d.c.Stderr, strings.Repeat("info: at work\n", 1001))
	case d.is("clings") && action == "set":
		c := exec.Command("/bin/sleep", "5")
		c.Stdout = os.Stdout
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return err
		}
	case d.is("litters"):
		if err := os.WriteFile(filepath.Join(d.c.Dir, "other.state"), nil, 0o600); err != nil {
			return err
		}
	case d.is("alone"): // two calls at the same time conflict
		f, err := os.OpenFile(d.file("lock"), os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return errors.New("another one runs")
		}
		f.Close()
		defer os.Remove(d.file("lock"))
		if err := d.sleep(80 * time.Millisecond); err != nil {
			return err
		}
	}
	var answer object
	var err error
	if action == "get" {
		answer, err = d.get(input)
	} else {
		answer, err = d.set(input)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(d.c.Stdout).Encode(answer)
}

func (d *double) get(input []byte) (object, error) {
	var in struct{ Names []string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	resources := []object{}
	for _, n := range d.nodes {
		if left, leaving := n["leaving"].(float64); leaving && time.Now().UnixMilli() > int64(left) {
			continue
		}
		delete(n, "leaving")
		d.reportSteps(n)
		n["login"] = []string{}
		n["capabilities"] = []string{"cpu.count=8", "memory.size=1G..64G"}
		switch on := n["power"] == "on"; {
		case d.is("no endpoint"):
		case on && d.is("no port"):
			n["login"] = []string{"pc1.example.org"}
		case on || d.is("open when off"):
			n["login"] = []string{"pc1.example.org:22"}
		}
		d.reportInterfaces(n)
		switch d.fault {
		case "unplugged":
			delete(n, "interfaces")
		case "odd capability":
			n["capabilities"] = []string{"cpu.count=many"}
		case "bare capability":
			n["capabilities"] = []string{"cpu.count=8", "fast"}
		case "no user":
			n["proxy"] = "gate.example.org:22"
		case "never ready":
			n["state"] = "changing"
		case "fails":
			n["state"], n["message"] = "failed", "no disk"
		case "bad state":
			n["state"] = "up"
		case "number":
			n["restart_serial"] = json.Number(n["restart_serial"].(string))
		case "undeclared":
			n["colour"] = "blue"
		case "tells what is written":
			n["setup"] = []string{}
		}
		resources = append(resources, n)
	}
	switch {
	case d.is("get fails"):
		return nil, errors.New("out of order")
	case d.is("ghost") && len(in.Names) > 0:
		resources = append(resources, object{"name": in.Names[len(in.Names)-1], "ensure": "present"})
	case d.is("hides") && len(in.Names) == 0:
		resources = []object{}
	case d.is("tells by name") && len(in.Names) == 0:
		return object{"error": object{"kind": "unsupported", "message": "ask by name"}}, nil
	case d.is("denies") && len(in.Names) == 1:
		resources = append(resources, object{"name": in.Names[0], "error": object{"message": "not there"}})
	case d.is("twice"):
		resources = append(resources, object{"name": "a"}, object{"name": "a"})
	case d.is("few names") && len(in.Names) > 100:
		return nil, errors.New("too many")
	case d.is("keeps") && len(in.Names) == 0:
		gone, _ := os.ReadFile(d.file("gone"))
		if len(gone) > 0 {
			resources = append(resources, object{"name": string(gone), "ensure": "present"})
		}
	}
	return object{"resources": resources}, nil
}

// reportInterfaces adds what get reports beside the request.
func (d *double) reportInterfaces(n object) {
	items, _ := n["interfaces"].([]any)
	more := map[string]string{"no address": `,"mac":"eth0"}`, "no emulator": `,"emulator":"a <b>"}`, "no shaping": "}"}[d.fault]
	for i, item := range items {
		items[i] = strings.TrimSuffix(item.(string), "}") + cmp.Or(more, `,"emulator":"tbf"}`)
	}
}

type asked struct {
	Name       string
	Is, Should object
}

func refusal(name, kind, message string) object {
	return object{"name": name, "error": object{"kind": kind, "message": message}}
}

func (d *double) set(input []byte) (object, error) {
	var in struct {
		Updates []asked
		Ral     struct{ Noop bool }
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	noop := in.Ral.Noop
	changes := []object{}
	bad := 0
	for _, u := range in.Updates {
		e := d.update(u, noop)
		if e == nil {
			continue
		}
		bad++
		changes = append(changes, e)
	}
	first := in.Updates[0]
	_, making := first.Should["component"]
	if first.Should["ensure"] == "absent" {
		d.pause = 500 * time.Millisecond // the call is killed during this pause
	}
	switch {
	case d.is("all or nothing") && bad > 0 && len(in.Updates) > 1:
		return object{"error": object{"message": "one of them is wrong"}}, nil
	case d.is("none or all") && bad > 0 && len(in.Updates) > 1:
		for _, u := range in.Updates[:len(in.Updates)-bad] {
			changes = append(changes, refusal(u.Name, "failed", "another one is wrong"))
		}
	case (d.is("latched") || d.is("stuck")) && !noop:
		f, err := os.OpenFile(d.file("latch"), os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil && d.is("stuck") { // waits for a process that has ended
			return nil, d.sleep(time.Minute)
		}
		if err != nil {
			return nil, errors.New("somebody is at it")
		}
		f.Close()
		if err := d.sleep(d.pause); err != nil {
			return nil, err // killed, so the latch stays
		}
		os.Remove(d.file("latch"))
	case d.is("few updates") && len(in.Updates) > 100:
		return nil, errors.New("too many")
	case d.is("forgets many") && len(in.Updates) > 100:
		return object{"changes": []any{}}, nil
	case d.is("noop fails") && noop:
		return nil, errors.New("no such option")
	case d.is("noop mute") && noop:
		return object{"changes": []any{}}, nil
	case d.is("noop guesses") && noop && making && bad == 0:
		guess := object{"name": first.Name}
		for name, v := range first.Should {
			guess[name] = object{"is": v, "was": first.Is[name]}
		}
		guess["power"] = object{"is": "off", "was": nil}
		changes = append(changes, guess)
	case d.is("timid") && noop && first.Should["users"] != nil:
		return object{"changes": []any{refusal(first.Name, "failed", "better not")}}, nil
	}
	if noop && d.is("noop then fails") {
		if err := d.save(); err != nil {
			return nil, err
		}
		return nil, errors.New("done, but do not ask how")
	}
	if noop && !(d.is("noop") || d.is("noop many") && len(in.Updates) > 100 || d.is("noop two") && len(in.Updates) == 2 || d.is("noop removes") && first.Should["ensure"] == "absent") {
		return object{"derive": true, "changes": changes}, nil
	}
	if d.is("refuses") && making {
		return object{"error": object{"kind": "forbidden", "message": "not you"}}, nil
	}
	if d.is("forgets") {
		clear(d.nodes)
	}
	if err := d.save(); err != nil {
		return nil, err
	}
	switch {
	case d.is("mute"):
		return object{"changes": []any{}}, nil
	case d.is("empty"):
		return object{}, nil
	case d.is("slow"):
		return nil, d.sleep(time.Minute)
	case d.is("rather slow") && first.Should["power"] == "off":
		if err := d.sleep(2400 * time.Millisecond); err != nil {
			return nil, err
		}
	case d.is("tells less") && making && bad == 0:
		return object{"changes": []any{object{"name": first.Name, "power": object{"is": "on", "was": nil}}}}, nil
	case d.is("tells other") && first.Should["power"] == "off":
		changes = append(changes, object{"name": first.Name, "power": object{"is": "on", "was": "on"}})
	case d.is("tells other past") && first.Should["power"] == "off":
		changes = append(changes, object{"name": first.Name, "power": object{"is": "off", "was": "off"}})
	}
	return object{"derive": true, "changes": changes}, nil
}

// update applies one update, or returns why not. It does not keep the nodes of a dry run.
func (d *double) update(u asked, noop bool) object {
	old, there := d.nodes[u.Name]
	if u.Should["ensure"] == "absent" {
		if !there && d.is("strict") {
			return refusal(u.Name, "failed", "not there")
		}
		if there && old["leaving"] == nil && d.is("fails to uninstall") {
			steps := stepsOf(old)
			steps[len(steps)-1].run(7)
			steps.keepIn(old)
			old["state"], old["leaving"] = "changing", time.Now().Add(time.Second).UnixMilli()
			return nil
		}
		delete(d.nodes, u.Name)
		if d.is("keeps") && !noop {
			_ = os.WriteFile(d.file("gone"), []byte(u.Name), 0o600)
		}
		return nil
	}
	if u.Should["component"] == "no-such-component" {
		switch d.fault {
		case "odd kind":
			return refusal(u.Name, "missing", "there is no such component")
		case "no message":
			return refusal(u.Name, "unknown", "")
		case "long message":
			return refusal(u.Name, "unknown", "there is\nno such component")
		}
		return refusal(u.Name, "unknown", "there is no such component")
	}
	if d.is("picky") {
		return refusal(u.Name, "failed", "not today")
	}
	if list, ok := u.Should["interfaces"].([]any); ok && strings.Contains(list[0].(string), "latency") {
		switch d.fault {
		case "shapes nothing":
			return refusal(u.Name, "unsupported", "link link0 asks for latency, which cannot be made here")
		case "refuses properties":
			return refusal(u.Name, "failed", "link link0 asks for latency, which cannot be made here")
		}
	}
	if there && u.Should["component"] != nil && d.is("once") {
		return refusal(u.Name, "failed", "it exists")
	}
	n := object{}
	if there {
		maps.Copy(n, old)
	} else {
		maps.Copy(n, u.Is)
	}
	maps.Copy(n, u.Should)
	delete(n, "setup")
	if e := d.doSteps(u, old, n); e != nil {
		return e
	}
	switch {
	case d.is("deaf"):
		n["restart_serial"] = "0"
	case d.is("hoards") && u.Should["users"] != nil && len(u.Should["users"].([]any)) == 1:
		n["users"] = old["users"]
	}
	d.nodes[u.Name] = n
	return nil
}

// save writes the state in two parts, so that a reader, or a kill in between, finds half
// of it.
func (d *double) save() error {
	text, err := json.Marshal(d.nodes)
	if err != nil {
		return err
	}
	if d.is("torn") || d.is("bare") {
		f, err := os.Create(d.file("state"))
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(text[:len(text)/2]); err != nil {
			return err
		}
		if err := d.sleep(max(d.pause, 250*time.Millisecond)); err != nil {
			return err
		}
		_, err = f.Write(text[len(text)/2:])
		return err
	}
	name := d.file(fmt.Sprint("new", os.Getpid()))
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	return os.Rename(name, d.file("state"))
}
