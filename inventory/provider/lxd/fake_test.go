package lxd

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"patchbay/am/file"
)

// fake is a server with a few calls of the REST API, and with faults.
type fake struct {
	*httptest.Server

	mu         sync.Mutex
	instances  map[string]*instance
	operations map[string]error
	status     string            // of the member m1; if it is not Online, the instances are lost
	hosts      map[string]string // the last input of the program, by instance
	used       []string          // what uses the bridge pbl000
	calls      map[string]int
	firewall   string
	// says is the output of the program, by instance; nil is that of configure.
	says func(instance string) string
	// fault may answer a call in the server's place. The call has happened unless drop is true.
	fault func(method, path string, count int) *fault
}

type fault struct {
	status int    // answered without doing anything
	later  string // the operation is accepted, does nothing, and fails with this text
	lost   bool   // the call is carried out, and the connection closes without an answer
}

// newFake returns a server and a folder with a provider called lxd that uses it.
func newFake(t *testing.T) (*fake, string) {
	t.Helper()
	f := &fake{instances: map[string]*instance{}, operations: map[string]error{}, status: "Online", hosts: map[string]string{}, calls: map[string]int{}}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.EnableHTTP2 = false
	f.StartTLS()
	t.Cleanup(f.Close)
	dir := t.TempDir()
	if _, err := ownCertificate(filepath.Join(dir, "lxd.crt"), filepath.Join(dir, "lxd.key"), SetupOptions{Progress: t.Logf}); err != nil {
		t.Fatal(err)
	}
	server := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	for name, text := range map[string]string{"lxd.server.crt": string(server), "lxd.yaml": "remote: " + f.URL + "\n"} {
		if err := file.Write(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f, dir
}

// setting adds a line to the provider's settings.
func (f *fake) setting(t *testing.T, dir, line string) {
	t.Helper()
	if err := file.Write(filepath.Join(dir, "lxd.yaml"), []byte("remote: "+f.URL+"\n"+line), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/1.0")
	f.calls[r.Method+path]++
	var bad *fault
	if f.fault != nil {
		bad = f.fault(r.Method, path, f.calls[r.Method+path])
	}
	if bad != nil && bad.status != 0 {
		f.answer(w, bad.status, map[string]any{"type": "error", "error": "a fault", "error_code": bad.status})
		return
	}
	if bad != nil && bad.later != "" {
		f.accept(w, fmt.Errorf("%s", bad.later), nil)
		return
	}
	if bad != nil && bad.lost {
		f.call(httptest.NewRecorder(), r, path)
		panic(http.ErrAbortHandler)
	}
	f.call(w, r, path)
}

func (f *fake) answer(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) sync(w http.ResponseWriter, v any) {
	f.answer(w, 200, map[string]any{"type": "sync", "metadata": v})
}

func (f *fake) accept(w http.ResponseWriter, err error, metadata any) {
	id := rand.Text()
	f.operations[id] = err
	f.answer(w, 202, map[string]any{"type": "async", "operation": "/1.0/operations/" + id, "metadata": metadata})
}

func (f *fake) call(w http.ResponseWriter, r *http.Request, path string) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	parts := strings.Split(strings.Trim(path, "/"), "/")
	missing := map[string]any{"type": "error", "error": "not found", "error_code": 404}
	switch {
	case path == "" || path == "/":
		f.sync(w, map[string]any{"environment": map[string]any{"server_clustered": true, "server_name": "m1", "server": "lxd", "firewall": f.firewall}})
	case path == "/cluster/members":
		f.sync(w, []member{{Name: "m1", URL: "https://192.0.2.1:8443", Status: f.status, Message: "no heartbeat"}})
	case strings.HasPrefix(path, "/network-acls"):
		f.answer(w, 404, missing)
	case path == "/networks/lxdbr0":
		f.sync(w, network{Type: "bridge", Managed: true})
	case path == "/networks/lxdbr0/state":
		f.sync(w, map[string]any{"addresses": []map[string]string{{"family": "inet", "address": "10.97.0.1", "netmask": "24", "scope": "global"}}})
	case path == "/networks":
		f.sync(w, []bridge{{"pbl000", "Created", f.used}, {"pbl000-members", "", nil}, {"pbl001", "Pending", nil}, {"lxdbr0", "Created", nil}})
	case strings.HasPrefix(path, "/images/aliases/"):
		f.sync(w, map[string]string{"target": "0123"})
	case path == "/images/0123":
		f.sync(w, map[string]any{"architecture": "x86_64", "properties": map[string]string{"os": "Debian", "release": "bookworm", "variant": "default"}})
	case path == "/resources":
		f.sync(w, map[string]any{"cpu": map[string]int{"total": 4}, "memory": space{16 << 30, 5 << 30}})
	case path == "/storage-pools/default/resources":
		f.sync(w, map[string]any{"space": space{100 << 30, 7 << 30}})
	case path == "/operations":
		f.sync(w, map[string]any{})
	case parts[0] == "operations" && len(parts) == 3 && parts[2] == "websocket":
		f.stream(w, r)
	case parts[0] == "operations":
		err, ok := f.operations[parts[1]]
		switch {
		case !ok:
			f.answer(w, 404, missing)
		case err != nil:
			f.sync(w, operation{ID: parts[1], StatusCode: 400, Err: err.Error()})
		default:
			f.sync(w, map[string]any{"id": parts[1], "status_code": 200, "metadata": map[string]any{"return": 0}})
		}
	case path == "/instances" && r.Method == http.MethodPost:
		var i instance
		_ = json.Unmarshal(body, &i)
		if f.instances[i.Name] != nil {
			f.answer(w, 409, map[string]any{"type": "error", "error": "already exists", "error_code": 409})
			return
		}
		i.Status, i.Location = statusStopped, r.URL.Query().Get("target")
		f.instances[i.Name] = &i
		f.accept(w, nil, nil)
	case path == "/instances":
		all := []*instance{}
		for _, i := range f.instances {
			if f.status != "Online" {
				i = &instance{Name: i.Name, Status: statusError, Location: "m1"}
			}
			all = append(all, i)
		}
		f.sync(w, all)
	case parts[0] == "instances" && f.instances[parts[1]] == nil:
		f.answer(w, 404, missing)
	case parts[0] == "instances" && f.status != "Online":
		f.answer(w, 503, map[string]any{"type": "error", "error": "connection refused", "error_code": 503})
	case parts[0] == "instances" && len(parts) == 2:
		i := f.instances[parts[1]]
		switch r.Method {
		case http.MethodGet:
			f.sync(w, i)
		case http.MethodPatch:
			var change instance
			_ = json.Unmarshal(body, &change)
			for key, value := range change.Config {
				i.Config[key] = value
			}
			for name, d := range change.Devices {
				i.Devices[name] = d
			}
			f.sync(w, nil)
		case http.MethodDelete:
			delete(f.instances, parts[1])
			f.accept(w, nil, nil)
		}
	case parts[2] == "files":
		f.sync(w, nil)
	case parts[2] == "exec":
		fds := map[string]string{}
		for _, fd := range []string{"control", "0", "1", "2"} {
			fds[fd] = parts[1] + " " + fd
		}
		f.accept(w, nil, map[string]any{"metadata": map[string]any{"fds": fds}})
	case parts[2] == "state":
		var change struct{ Action string }
		_ = json.Unmarshal(body, &change)
		f.instances[parts[1]].Status = map[string]string{"start": statusRunning, "stop": statusStopped}[change.Action]
		f.instances[parts[1]].Config["volatile.last_state.power"] = "RUNNING"
		f.accept(w, nil, nil)
	default:
		f.answer(w, 404, missing)
	}
}

// stream plays a stream of the program in a node.
func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	instance, fd, ok := strings.Cut(r.URL.Query().Get("secret"), " ")
	if !ok {
		http.NotFound(w, r)
		return
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	if fd == "1" {
		output := `{"Addresses": ["192.0.2.77", "a\nb"]}`
		if f.says != nil {
			output = f.says(instance)
		}
		_ = conn.Write(r.Context(), websocket.MessageBinary, []byte(output))
	}
	if fd == "1" || fd == "2" {
		_ = conn.Write(r.Context(), websocket.MessageText, nil)
	}
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if fd == "0" && kind == websocket.MessageBinary {
			f.mu.Lock()
			f.hosts[instance] = string(data)
			f.mu.Unlock()
		}
	}
}

// count returns the number of instances that are not templates.
func (f *fake) count() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.instances {
		if !i.isTemplate() {
			n++
		}
	}
	return n
}
