package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/provider"
)

// RunBehind runs one call of the provider called name in the folder dir. This provider
// stands in front of another provider, which creates the nodes. executable is the other
// provider. Users reach the nodes through the gateway of a local testbed. In NAME.yaml,
// the key instance is the name of the testbed. The other keys are settings of the other
// provider. RunBehind returns an error only if it cannot write an answer.
//
// The action describe returns the metadata of the other provider, and adds the attributes
// users, login, proxy and message. The action get replaces the logins of each node by its
// endpoints. The action set stores the users of the endpoints. It also sends the users to
// the other provider, if that declares the attribute users.
func RunBehind(dir, name, executable, argument string, stdin io.Reader, stdout io.Writer) error {
	c := client{dir: dir, name: name, socket: Socket, stderr: os.Stderr, behind: true}
	return c.runBehind(executable, argument, stdin, stdout)
}

func (c *client) runBehind(executable, argument string, stdin io.Reader, stdout io.Writer) error {
	action, err := c.action(argument)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit(action))
	defer cancel()
	b := &behind{client: c, other: executable}
	err = b.describe(ctx)
	switch {
	case action == "describe" && err == nil:
		return b.writeMetadata(stdout)
	case action == "describe":
		return err
	case err != nil:
		fmt.Fprintf(c.stderr, "error: %v\n", err)
		return provider.WriteAnswer(stdout, provider.Failure(errors.New("this provider is not set up; ask the operators of the site to look into the log")))
	}
	input, err := readInput(stdin)
	if errors.Is(err, errTooLarge) {
		return provider.WriteAnswer(stdout, provider.Failure(err))
	}
	if err != nil {
		return err
	}
	if action == ActionGet {
		return b.get(ctx, input, stdout)
	}
	return b.set(ctx, input, stdout)
}

// behind is one call of a provider that stands in front of another one, see RunBehind.
type behind struct {
	*client
	other    string
	metadata map[string]any // of the other provider, with the gateway's attributes
	users    bool           // the other provider declares users
}

// maxOther is the maximum number of bytes that the other provider may write.
const maxOther = MaxAnswer

// otherDelay is how long the other provider's output may stay open after the provider has
// ended.
const otherDelay = time.Second

// call runs the other provider for an action, and returns its answer.
func (b *behind) call(ctx context.Context, action string, input []byte) ([]byte, error) {
	path := b.other
	if !filepath.IsAbs(path) {
		path = "." + string(filepath.Separator) + path
	}
	cmd := exec.CommandContext(ctx, path, "ral_action="+action)
	cmd.Dir, cmd.Stdin, cmd.Stderr = b.dir, bytes.NewReader(input), b.stderr
	var answer limited
	cmd.Stdout = &answer
	// Background processes of the provider may hold its output open after its end.
	cmd.WaitDelay = otherDelay
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("the provider %s, which is behind this one: %s: %w", filepath.Base(b.other), action, err)
	}
	return answer.Bytes(), nil
}

// limited is a buffer of at most maxOther bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOther {
		return 0, fmt.Errorf("it wrote more than %d bytes", maxOther)
	}
	return l.Buffer.Write(p)
}

// describe takes the other provider's metadata from the companion file of the
// executable. If there is none, it takes them from NAME.yaml, or else from the answer
// to the action describe.
func (b *behind) describe(ctx context.Context) error {
	companion := strings.TrimSuffix(b.other, provider.Suffix) + ".yaml"
	if !filepath.IsAbs(companion) {
		companion = filepath.Join(b.dir, companion)
	}
	metadata, err := companionMetadata(companion)
	if err != nil {
		return err
	}
	ours, err := companionMetadata(filepath.Join(b.dir, b.name+".yaml"))
	if err == nil && ours != nil {
		err = b.checkOwnAttributes(ours, filepath.Base(companion))
	}
	if err != nil {
		return err
	}
	if metadata == nil {
		metadata = ours
	}
	if metadata == nil {
		text, err := b.call(ctx, "describe", nil)
		if err != nil {
			return fmt.Errorf("%w; or write its metadata into %s or %s.yaml, under provider, so that it need not describe itself", err, filepath.Base(companion), b.name)
		}
		var top map[string]any
		if err := yaml.Unmarshal(text, &top); err != nil {
			return fmt.Errorf("the metadata that %s describes are not YAML: %s", filepath.Base(b.other), firstLine(err))
		}
		metadata, _ = top["provider"].(map[string]any)
	}
	attributes, ok := metadata["attributes"].(map[string]any)
	if !ok {
		return fmt.Errorf("the provider %s, which is behind this one, has no metadata with attributes; write its metadata into %s, under provider",
			filepath.Base(b.other), filepath.Base(companion))
	}
	b.users = attributes[provider.AttrUsers] != nil
	if !b.users {
		attributes[provider.AttrUsers] = map[string]any{"type": "array[string]", "desc": "accounts that may log in at the gateway"}
	}
	for name, kind := range map[string]string{provider.AttrLogin: "array[string]", provider.AttrProxy: "string"} {
		attributes[name] = map[string]any{"type": kind, "kind": "r", "desc": "the node's endpoint at the gateway"}
	}
	if attributes[provider.AttrMessage] == nil {
		attributes[provider.AttrMessage] = map[string]any{"type": "string", "kind": "r", "desc": "why the node has no endpoint"}
	}
	delete(metadata, "name") // this provider has a name of its own
	b.metadata = metadata
	return nil
}

// companionMetadata returns nil if the file has no metadata.
func companionMetadata(path string) (map[string]any, error) {
	text, err := readSmallFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Base(path), err)
	}
	var top struct{ Provider map[string]any }
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("%s: %s", filepath.Base(path), firstLine(err))
	}
	return top.Provider, nil
}

// checkOwnAttributes returns an error if NAME.yaml lacks attributes that this program
// provides. The manager reads NAME.yaml itself, so describe cannot add them.
func (b *behind) checkOwnAttributes(metadata map[string]any, companion string) error {
	attributes, _ := metadata["attributes"].(map[string]any)
	for _, line := range []string{`users: {type: "array[string]"}`, `login: {type: "array[string]", kind: r}`, "proxy: {type: string, kind: r}"} {
		if name, _, _ := strings.Cut(line, ":"); attributes[name] == nil {
			return fmt.Errorf("%s.yaml: the attributes lack %s; add the line %s, or move everything under provider to %s, for which it is added automatically", b.name, name, line, companion)
		}
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (b *behind) writeMetadata(out io.Writer) error {
	text, err := yaml.Marshal(map[string]any{"provider": b.metadata})
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// entry is a resource, an update or a change. Its values are as the caller or the other
// provider wrote them.
type entry map[string]json.RawMessage

func (e entry) text(name string) string {
	var s string
	_ = json.Unmarshal(e[name], &s)
	return s
}

func (e entry) strings(name string) []string {
	var l []string
	_ = json.Unmarshal(e[name], &l)
	return l
}

func (e entry) set(name string, v any) {
	if text, err := json.Marshal(v); err == nil {
		e[name] = text
	}
}

// get replaces the logins of each node by the node's endpoints at the testbed. It
// removes the endpoints of requested nodes that no longer exist.
func (b *behind) get(ctx context.Context, input json.RawMessage, out io.Writer) error {
	text, err := b.call(ctx, ActionGet, input)
	if err != nil {
		return err
	}
	var answer struct {
		Error     json.RawMessage `json:"error,omitempty"`
		Resources []entry         `json:"resources"`
	}
	var asked struct{ Names []string }
	if err := errors.Join(json.Unmarshal(text, &answer), json.Unmarshal(input, &asked)); err != nil {
		return fmt.Errorf("the answer of %s: %w", filepath.Base(b.other), err)
	}
	if isSet(answer.Error) {
		_, err := out.Write(text)
		return err
	}
	request := EndpointsInput{Provider: b.name, Names: asked.Names}
	nodes := map[string]entry{} // that exist; nil: the node has an error, so its endpoint stays
	for _, e := range answer.Resources {
		if name := e.text(provider.AttrName); isSet(e["error"]) {
			nodes[name] = nil
		} else if e.text(provider.AttrEnsure) != provider.Absent {
			nodes[name] = e
			if len(asked.Names) == 0 {
				request.Names = append(request.Names, name)
			}
		}
	}
	for _, name := range asked.Names {
		if _, ok := nodes[name]; !ok {
			request.Remove = append(request.Remove, name)
		}
	}
	maps.DeleteFunc(nodes, func(_ string, e entry) bool { return e == nil })
	request.Set = b.endpoints(ctx, nodes)
	endpoints, err := b.callEndpoints(ctx, request)
	if err != nil {
		return provider.WriteAnswer(out, provider.Failure(err))
	}
	for _, d := range endpoints {
		if e := nodes[d.Name]; e != nil {
			b.addEndpoint(e, d)
		}
	}
	return provider.WriteAnswer(out, object{"resources": answer.Resources})
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// addEndpoint replaces the logins in a node's entry by those of its endpoint. If the
// endpoint has an error, the entry gets no logins and the error as its message. Logins
// do not change if the node has none yet or has a proxy of its own. If the other
// provider does not declare users, the entry also gets the endpoint's users.
func (b *behind) addEndpoint(e entry, d EndpointStatus) {
	if !b.users && d.Users != nil {
		e.set(provider.AttrUsers, d.Users)
	}
	logins := e.strings(provider.AttrLogin)
	if len(logins) == 0 || e.text(provider.AttrProxy) != "" {
		return
	}
	switch {
	case d.Error != "":
		fmt.Fprintf(b.stderr, "error: node %s gets no endpoint: %s\n", d.Name, d.Error)
		e.set(provider.AttrMessage, d.Error)
		e.set(provider.AttrLogin, []string{})
	case len(d.Login) > 0:
		e.set(provider.AttrLogin, endpointLogins(logins, d.Login))
		if d.Proxy != "" {
			e.set(provider.AttrProxy, d.Proxy)
		}
	}
}

// endpointLogins returns the login USER@ENDPOINT for each user in logins and each
// endpoint. It skips logins with another address than the first login, because an
// endpoint forwards to one address.
func endpointLogins(logins, endpoints []string) []string {
	all := []string{}
	_, target := splitUser(logins[0])
	for _, login := range logins {
		user, to := splitUser(login)
		if to != target {
			continue
		}
		for _, endpoint := range endpoints {
			if user != "" {
				endpoint = user + "@" + endpoint
			}
			all = append(all, endpoint)
		}
	}
	return all
}

func splitUser(login string) (user, hostPort string) {
	if user, rest, ok := strings.Cut(login, "@"); ok {
		return user, rest
	}
	return "", login
}

// callEndpoints sets, removes and reads endpoints at the testbed.
func (b *behind) callEndpoints(ctx context.Context, ask EndpointsInput) ([]EndpointStatus, error) {
	input, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	text, err := b.requestTestbed(ctx, Request{Action: ActionEndpoints, Input: input})
	if err != nil {
		return nil, err
	}
	var out EndpointsOutput
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("the testbed's answer cannot be read: %w", err)
	}
	return out.Endpoints, nil
}
