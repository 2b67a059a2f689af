package experimenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// callRequest is a call to an aggregate, as the command line describes it.
type callRequest struct {
	api     int
	method  string
	args    []string
	options []string
	// start and end are the values of --start and --end.
	start, end string
	me         *session.Caller
	now        time.Time
	// compile returns the request for the text of a file, which may be a source.
	compile func(file string, text []byte) ([]byte, error)
}

// shape describes the parameters of a method, with one letter each.
//
//	C credentials   O options        s the slice's URN
//	u slivers: the remaining arguments, or the slice
//	r a request     t a time         a an action
//	k users and their SSH keys, a parameter only in version 2
type shape struct {
	params string
	format bool // the method has an option for the RSpec format
	users  bool // the method has an option for the users with accounts
	// options lists the method's options, besides geni_speaking_for.
	options string
}

var shapes = map[int]map[string]shape{
	3: {
		"GetVersion":               {params: "O"},
		"ListResources":            {params: "CO", format: true, options: "geni_available geni_compressed geni_end_time geni_rspec_version geni_start_time"},
		"Describe":                 {params: "uCO", format: true, options: "geni_best_effort geni_compressed geni_rspec_version"},
		"Allocate":                 {params: "sCrO", options: "geni_end_time geni_start_time geni_users patchbay_change patchbay_preview patchbay_provision_at_start"},
		"Provision":                {params: "uCO", format: true, users: true, options: "geni_best_effort geni_end_time geni_rspec_version geni_users patchbay_provision_at_start"},
		"Status":                   {params: "uCO", options: "geni_best_effort"},
		"PerformOperationalAction": {params: "uCaO", options: "geni_best_effort geni_users"},
		"Renew":                    {params: "uCtO", options: "geni_best_effort geni_end_time geni_extend_alap"},
		"Delete":                   {params: "uCO", options: "geni_best_effort"},
		"Shutdown":                 {params: "sCO"},
	},
	2: {
		"GetVersion":    {params: "O"},
		"ListResources": {params: "CO", format: true, options: "geni_available geni_compressed geni_end_time geni_rspec_version geni_slice_urn geni_start_time"},
		"CreateSliver":  {params: "sCrkO", options: "geni_end_time geni_start_time"},
		"SliverStatus":  {params: "sCO"},
		"RenewSliver":   {params: "sCtO", options: "geni_extend_alap"},
		"DeleteSliver":  {params: "sCO"},
		"Shutdown":      {params: "sCO"},
	},
}

var actionVerbs = []string{"start", "stop", "restart", "update_users", "setup"}

// methodOf ignores case. For a verb such as start, it returns PerformOperationalAction,
// with the verb as the first argument. An unknown word is returned unchanged.
func methodOf(api int, word string, args []string) (string, []string) {
	if verb := strings.ToLower(word); api == 3 && slices.Contains(actionVerbs, verb) {
		return "PerformOperationalAction", append([]string{verb}, args...)
	}
	for name := range shapes[api] {
		if strings.EqualFold(name, word) {
			return name, args
		}
	}
	return word, args
}

// action returns the action of PerformOperationalAction, as the API spells it; "" for other
// methods.
func (r *callRequest) action() string {
	if !strings.Contains(shapes[r.api][r.method].params, "a") || len(r.args) == 0 {
		return ""
	}
	switch a := r.args[0]; {
	case a == "setup":
		return string(am.ActionSetup)
	case strings.Contains(a, "geni_"), a == string(am.ActionSetup):
		return a
	default:
		return "geni_" + a
	}
}

// needsSlice reports whether the call needs a slice that the arguments do not name.
func (r *callRequest) needsSlice() bool {
	_, slivers := r.targets()
	areURNs := len(slivers) > 0 && !slices.ContainsFunc(slivers, isNodeName)
	return !areURNs && strings.ContainsAny(shapes[r.api][r.method].params, "su")
}

// isWholeSlice reports whether the call concerns all slivers of the slice.
func (r *callRequest) isWholeSlice() bool {
	_, slivers := r.targets()
	return len(slivers) == 0 || slices.ContainsFunc(slivers, func(s string) bool { return strings.EqualFold(s, r.me.SliceURN) })
}

// params returns the parameters of the call, in the order of the method's shape. Each letter for an
// argument takes the next one, except u, which takes all that remain at the end.
func (r *callRequest) params() ([]xmlrpc.Value, error) {
	options, err := r.optionStruct()
	if err != nil {
		return nil, err
	}
	sh, ok := shapes[r.api][r.method]
	if !ok {
		return r.freeParams(options)
	}
	var params []xmlrpc.Value
	var action string
	args := r.args
	next := func(what string) (string, error) {
		if len(args) == 0 {
			return "", fmt.Errorf("%s is missing", what)
		}
		first := args[0]
		args = args[1:]
		return first, nil
	}
	sliversAt := -1 // the index of parameter u
	for _, letter := range sh.params {
		var v xmlrpc.Value
		switch letter {
		case 'C':
			v = r.credentials(strings.ContainsAny(sh.params, "su"))
		case 'O':
			v = r.withDefaults(options, sh.users || action == string(am.ActionUpdateUsers), sh.format)
		case 's':
			if r.me.SliceURN == "" {
				return nil, errors.New("the slice is missing; give --slice NAME, URN or FILE")
			}
			v = r.me.SliceURN
		case 'u':
			sliversAt = len(params) // its value is set below
		case 'r':
			file, err := next("the file with the request")
			if err != nil {
				return nil, err
			}
			if v, err = r.readRequest(file); err != nil {
				return nil, err
			}
		case 't':
			text, err := next("the time until which to renew, such as 2h,")
			if err != nil {
				return nil, err
			}
			if v, err = r.time(text); err != nil {
				return nil, err
			}
		case 'a':
			if _, err = next("the action, such as start,"); err != nil {
				return nil, err
			}
			action = r.action()
			v = action
		case 'k':
			v = client.Users(r.me.Users())
		}
		params = append(params, v)
	}
	if sliversAt >= 0 {
		if params[sliversAt], err = r.sliceOr(args); err != nil {
			return nil, err
		}
		args = nil
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("%q is one argument too many", args[0])
	}
	return params, nil
}

// withDefaults adds the options that a call needs and that were not given: the users if users is true,
// the RSpec format if format is true, and in version 2 the slice.
func (r *callRequest) withDefaults(options xmlrpc.Struct, users, format bool) xmlrpc.Struct {
	if users {
		options = withDefault(options, "geni_users", client.Users(r.me.Users()))
	}
	if format {
		options = withDefault(options, "geni_rspec_version", xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}})
	}
	if r.api == 2 && r.method == "ListResources" && r.me.SliceURN != "" {
		options = withDefault(options, "geni_slice_urn", r.me.SliceURN)
	}
	return options
}

func (r *callRequest) readRequest(file string) (xmlrpc.Value, error) {
	text, err := command.ReadInput(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the request: %w", err)
	}
	text, err = r.compile(file, text)
	return string(text), err
}

// sliceOr returns the URN of the slice if slivers is empty.
func (r *callRequest) sliceOr(slivers []string) (xmlrpc.Value, error) {
	if len(slivers) > 0 {
		return client.Strings(slivers), nil
	}
	if r.me.SliceURN == "" {
		return nil, errors.New("the slice is missing; give --slice NAME, URN or FILE, or the URNs of slivers")
	}
	return client.Strings([]string{r.me.SliceURN}), nil
}

// freeParams is for a method without a shape. The parameters are the arguments as text or
// JSON, then the options if there are any.
func (r *callRequest) freeParams(options xmlrpc.Struct) ([]xmlrpc.Value, error) {
	var params []xmlrpc.Value
	for _, a := range r.args {
		v, err := jsonOrText(a)
		if err != nil {
			return nil, err
		}
		params = append(params, v)
	}
	if len(options) > 0 {
		params = append(params, options)
	}
	return params, nil
}

// credentials returns the caller's credentials in the form of the API's version.
func (r *callRequest) credentials(forSlice bool) xmlrpc.Value {
	list := r.me.ForUser()
	if forSlice {
		list = r.me.ForSlice()
	}
	if r.api == 2 {
		texts := make([]string, len(list))
		for i, c := range list {
			texts[i] = c.Text
		}
		return client.Strings(texts)
	}
	return client.Credentials(list)
}

// time accepts a time, a day or a duration from now. A day means its last second in UTC.
func (r *callRequest) time(text string) (string, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return client.Time(day.AddDate(0, 0, 1).Add(-time.Second)), nil
	}
	t, err := display.ParseTime(text, r.now, r.now)
	return client.Time(t), err
}

// targets divides the arguments into slivers and the arguments before them. A method
// without the parameter u has no slivers.
func (r *callRequest) targets() (leading, slivers []string) {
	params := shapes[r.api][r.method].params
	n := 0 // arguments before the slivers
	for _, letter := range params {
		if strings.ContainsRune("rta", letter) {
			n++
		}
	}
	if !strings.Contains(params, "u") || len(r.args) < n {
		return r.args, nil
	}
	return r.args[:n], r.args[n:]
}

// isNodeName reports whether a SLIVER of the command line is the name of a node and not a URN.
func isNodeName(s string) bool { return len(s) < 4 || !strings.EqualFold(s[:4], "urn:") }

// resolve replaces names of nodes by the URNs of their slivers. Without names, it makes no
// call.
func (r *callRequest) resolve(ctx context.Context, c *client.Client) error {
	before, targets := r.targets()
	i := slices.IndexFunc(targets, isNodeName)
	if i < 0 {
		return nil
	}
	if r.me.SliceURN == "" {
		return fmt.Errorf("%q is not the URN of a sliver; to name a node of a slice, also give --slice NAME, URN or FILE", targets[i])
	}
	describe := callRequest{api: r.api, method: "Describe", me: r.me, now: r.now}
	params, err := describe.params()
	if err != nil {
		return err
	}
	reply, err := c.Call(ctx, describe.method, params...)
	if err != nil {
		return err
	}
	if reply.Code != am.Success {
		return fmt.Errorf("cannot find the sliver of %q: Describe: %w", targets[i], reply.Err())
	}
	nodes, err := nodesOf(readValue(reply.Value).rspec, "")
	if err != nil {
		return fmt.Errorf("cannot find the sliver of %q: the manifest cannot be read: %w", targets[i], err)
	}
	r.args = slices.Clone(before)
	for _, name := range targets {
		urn := name
		if isNodeName(name) {
			if urn, err = sliverOf(nodes, name); err != nil {
				return err
			}
		}
		r.args = append(r.args, urn)
	}
	return nil
}

// loginCommand returns a command line of ssh, with the same key for the node and its gateway. With the
// key "", ssh chooses the keys.
func loginCommand(n experiment.Node, key string) string {
	to := func(l experiment.Login, words ...string) string {
		if key != "" {
			words = append([]string{"-i", key}, words...)
		}
		if l.Port != 22 {
			words = append(words, "-p", strconv.Itoa(l.Port))
		}
		return display.ShellLine(append(append([]string{"ssh"}, words...), l.User+"@"+l.Host))
	}
	if !n.Gateway.Exists() {
		return to(n.Login)
	}
	// ssh -J would not use the key of -i for the gateway.
	return to(n.Login, "-o", "ProxyCommand="+to(n.Gateway, "-W", "[%h]:%p"))
}

// nodesBySliver returns nothing if the manifest is unreadable.
func nodesBySliver(manifest, user string) map[string]experiment.Node {
	found := map[string]experiment.Node{}
	nodes, _ := nodesOf(manifest, user)
	for _, n := range nodes {
		found[n.Sliver] = n
	}
	return found
}

// nodesOf leaves out nodes without slivers. The logins are those of the user.
func nodesOf(manifest, user string) ([]experiment.Node, error) {
	if manifest == "" {
		return nil, nil // the slice has no slivers here
	}
	m, err := experiment.ReadManifest([]byte(manifest), user)
	return slices.DeleteFunc(m.Nodes, func(n experiment.Node) bool { return n.Sliver == "" }), err
}

// sliverOf fails if no sliver or several slivers match the name.
func sliverOf(nodes []experiment.Node, name string) (string, error) {
	var found, names []string
	for _, n := range nodes {
		names = append(names, n.Name)
		if n.Name == name && !slices.Contains(found, n.Sliver) {
			found = append(found, n.Sliver)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(names) == 0 {
			return "", fmt.Errorf("there is no node %q: the slice has no nodes here", name)
		}
		hint := "there are: " + userfolder.JoinSome(names)
		if near := display.Suggest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s? There are: %s", near, userfolder.JoinSome(names))
		}
		return "", fmt.Errorf("the slice has no node %q here; %s", name, hint)
	}
	return "", fmt.Errorf("several nodes are called %q; give the URN of one: %s", name, userfolder.JoinSome(found))
}
