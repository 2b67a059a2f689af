package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"patchbay/inventory/local"
	"patchbay/inventory/local/image"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// Bounds on what is asked.
const (
	maxNodes = 2000
	maxText  = 1024 // of a URN or client_id, in bytes
	maxNames = provider.MaxNames
	writers  = 8 // records that are written at once
)

// update is one resource of a set. What is counts as the record has it, so the
// caller's is is not read.
type update struct {
	Name   string `json:"name"`
	Should should `json:"should"`
}

// should is what differs; nil where nothing was asked.
type should struct {
	Ensure        *string   `json:"ensure"`
	Power         *string   `json:"power"`
	RestartSerial *string   `json:"restart_serial"`
	Component     *string   `json:"component"`
	SliverType    *string   `json:"sliver_type"`
	Image         *string   `json:"image"`
	Hostname      *string   `json:"hostname"`
	Users         *[]string `json:"users"`
	ClientID      *string   `json:"client_id"`
	SliceURN      *string   `json:"slice_urn"`
	SliverURN     *string   `json:"sliver_urn"`
}

// object is an answer or a part of one.
type object map[string]any

// refusalError is why one resource is not as asked; its text is for
// experimenters.
type refusalError struct {
	kind provider.Kind
	text string
}

func (e *refusalError) Error() string { return e.text }

func refused(kind provider.Kind, format string, args ...any) error {
	return &refusalError{kind, fmt.Sprintf(format, args...)}
}

// failed is an error in an answer or in one of its entries.
func failed(err error) object {
	kind := provider.Failed
	if refusal, ok := errors.AsType[*refusalError](err); ok {
		kind = refusal.kind
	}
	return object{"error": object{"message": err.Error(), "kind": kind}}
}

// set writes down what is asked, wakes the lives it is asked of, and answers.
func (t *Testbed) set(input json.RawMessage) (object, error) {
	var q struct {
		Updates []update `json:"updates"`
		Ral     struct {
			Noop bool `json:"noop"`
		} `json:"ral"`
	}
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("the input of set cannot be read: %w", err)
	}
	if len(q.Updates) > maxNames {
		return nil, fmt.Errorf("the input of set has %d updates, at most %d can be", len(q.Updates), maxNames)
	}
	names, err := t.images.Names()
	if err != nil {
		return nil, err
	}
	answers := make([]object, len(q.Updates))
	places := make(chan struct{}, writers)
	seen := map[string]bool{}
	var all sync.WaitGroup
	for i, u := range q.Updates {
		if seen[u.Name] {
			continue // the first counts
		}
		seen[u.Name] = true
		places <- struct{}{}
		all.Go(func() {
			c, err := t.accept(u, names, q.Ral.Noop)
			if _, ours := errors.AsType[*refusalError](err); err != nil && !ours {
				t.log.Error("cannot write down what is asked of a node", "node", u.Name, "error", err)
				err = refused(provider.Failed, "the testbed cannot note what is asked of the node; its operators can see why in the log")
			}
			if err != nil {
				c = failed(err)
			}
			if c != nil {
				c["name"] = u.Name
			}
			answers[i] = c
			<-places
		})
	}
	all.Wait()
	changes := slices.DeleteFunc(answers, func(o object) bool { return o == nil })
	return object{"changes": changes}, nil
}

// accept answers one update; nil when there is nothing to do.
func (t *Testbed) accept(u update, imageNames []string, noop bool) (object, error) {
	w := u.Should
	if w.Ensure != nil && *w.Ensure != provider.Present && *w.Ensure != provider.Absent {
		return nil, refused(provider.Failed, "ensure is %.40q and can be present or absent", *w.Ensure)
	}
	absent := w.Ensure != nil && *w.Ensure == provider.Absent
	l := t.life(u.Name)
	switch {
	case l == nil && absent:
		return nil, nil
	case l == nil && w.Ensure == nil:
		return nil, refused(provider.Unknown, "there is no node %.80s", u.Name)
	case l == nil:
		return t.make(u, imageNames, noop)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		if absent {
			return nil, nil
		}
		return nil, refused(provider.Failed, "node %s was just removed; ask again", u.Name)
	}
	next := l.rec.Asked
	switch {
	case next.Removing && absent:
		return nil, nil
	case absent:
		next.Removing = true
	case next.Removing:
		return nil, refused(provider.Failed, "node %s is still being removed; ask again when it is gone", u.Name)
	default:
		if err := w.change(&next); err != nil {
			return nil, err
		}
	}
	change := changed(&l.rec.Asked, &next)
	if change == nil || noop {
		return change, nil
	}
	rec := l.rec
	rec.Asked, rec.Change = next, rec.Change+1
	if err := l.save(rec); err != nil {
		return nil, err
	}
	l.say(provider.StateChanging, "waiting for its turn")
	l.poke()
	if s := l.slice; s != nil {
		s.change()
	}
	return change, nil
}

// change puts what is asked into a node that is there.
func (w *should) change(a *asked) error {
	for _, fixed := range []struct {
		name string
		want *string
		is   string
	}{
		{"component", w.Component, a.Component}, {"sliver_type", w.SliverType, a.SliverType},
		{"image", w.Image, a.Image}, {"slice_urn", w.SliceURN, a.SliceURN},
	} {
		if fixed.want != nil && *fixed.want != fixed.is {
			return refused(provider.Failed, "the %s of a node cannot be changed; remove the node first", fixed.name)
		}
	}
	return w.assign(a)
}

// assign puts all that is asked into a, checked.
func (w *should) assign(a *asked) error {
	for to, from := range map[*string]*string{
		&a.Component: w.Component, &a.SliverType: w.SliverType, &a.Image: w.Image, &a.Hostname: w.Hostname, &a.Power: w.Power,
		&a.RestartSerial: w.RestartSerial, &a.ClientID: w.ClientID, &a.SliceURN: w.SliceURN, &a.SliverURN: w.SliverURN,
	} {
		if from != nil {
			*to = *from
		}
	}
	if w.Users != nil {
		a.Users = *w.Users
		if _, err := parseUsers(a.Users); err != nil {
			return refused(provider.Failed, "%v", err)
		}
	}
	switch {
	case a.Power != provider.On && a.Power != provider.Off:
		return refused(provider.Failed, "power is %.40q and can be on or off", a.Power)
	case a.Hostname != "" && !isHostname(a.Hostname):
		return refused(provider.Failed, "%.80q cannot be a hostname; use up to 64 letters, digits, hyphens and dots", a.Hostname)
	}
	for _, text := range []struct{ name, value string }{
		{"restart_serial", a.RestartSerial}, {"client_id", a.ClientID}, {"slice_urn", a.SliceURN}, {"sliver_urn", a.SliverURN},
	} {
		if len(text.value) > maxText || !oneLine(text.value) {
			return refused(provider.Failed, "%s is not one line of at most %d bytes", text.name, maxText)
		}
	}
	return nil
}

// isHostname accepts what can be the name of a Linux host and stand in
// /etc/hosts.
func isHostname(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return len(s) <= 64 && s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"-.") == "" && !strings.Contains(s, "..")
}

// hostname is that of the node called id: the one that was asked for, if any.
func (a *asked) hostname(id string) string {
	if a.Hostname == "" {
		return id[:min(len(id), 8)]
	}
	return a.Hostname
}

// isID accepts what can be the name of a node: UUIDs and the like.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// make is accept for a node that is not there.
func (t *Testbed) make(u update, imageNames []string, noop bool) (object, error) {
	if !isID(u.Name) {
		return nil, refused(provider.Failed, "%.80q cannot be the name of a node; it must be a UUID", u.Name)
	}
	next := asked{Power: provider.On}
	if err := u.Should.assign(&next); err != nil {
		return nil, err
	}
	kind, err := t.check(&next, imageNames)
	if err != nil {
		return nil, err
	}
	change := changed(nil, &next)
	if noop {
		if t.full() {
			return nil, errFull
		}
		return change, nil
	}
	limits := node.Limits{CPUs: kind.CPUs, Memory: kind.Memory, PIDs: kind.PIDs, Disk: kind.Disk}
	if err := t.begin(u.Name, record{Asked: next, Change: 1, Limits: limits, Restarted: next.RestartSerial}); err != nil {
		return nil, err
	}
	return change, nil
}

var errFull = refused(provider.Failed, "the testbed has as many nodes as it can have, %d", maxNodes)

// check tells what a new node may take, or that there is no such thing.
func (t *Testbed) check(a *asked, imageNames []string) (local.SliverType, error) {
	switch {
	case a.Component == "":
		return local.SliverType{}, refused(provider.Failed, "a node needs a component")
	case a.Component != t.settings.Component:
		return local.SliverType{}, refused(provider.Unknown, "the local testbed has no component %.80s; there is %s", a.Component, t.settings.Component)
	case a.Image != "" && !slices.Contains(imageNames, a.Image):
		return local.SliverType{}, refused(provider.Unknown, "there is no image %.80s; there are %s", a.Image, listed(imageNames))
	}
	var names []string
	for _, kind := range t.settings.SliverTypes {
		if kind.Name == a.SliverType || a.SliverType == "" {
			return kind, nil
		}
		names = append(names, kind.Name)
	}
	return local.SliverType{}, refused(provider.Unknown, "there is no sliver type %.80s; there are %s", a.SliverType, listed(names))
}

func listed(words []string) string { return strings.Join(words, ", ") }

// imageName is the image that was asked for.
func (a *asked) imageName() string {
	if a.Image == "" {
		return image.Host
	}
	return a.Image
}

// changed is the entry in changes: every attribute that is not as it was, nil
// when there is none.
func changed(old, next *asked) object {
	was, is := old.attributes(), next.attributes()
	c := object{}
	if next.Removing {
		return object{provider.AttrEnsure: object{"is": provider.Absent, "was": provider.Present}}
	}
	for name, v := range is {
		a, _ := json.Marshal(v)
		b, _ := json.Marshal(was[name])
		if string(a) != string(b) {
			c[name] = object{"is": v, "was": was[name]}
		}
	}
	if len(c) == 0 {
		return nil
	}
	return c
}

// attributes are those that may be set, as get reports them.
func (a *asked) attributes() provider.Resource {
	if a == nil {
		return provider.Resource{provider.AttrEnsure: provider.Absent}
	}
	users := a.Users
	if users == nil {
		users = []string{}
	}
	return provider.Resource{
		provider.AttrEnsure: provider.Present, provider.AttrComponent: a.Component, provider.AttrSliverType: a.SliverType,
		provider.AttrImage: a.Image, provider.AttrHostname: a.Hostname, provider.AttrPower: a.Power,
		provider.AttrRestartSerial: a.RestartSerial, provider.AttrUsers: users, provider.AttrClientID: a.ClientID,
		provider.AttrSliceURN: a.SliceURN, provider.AttrSliverURN: a.SliverURN,
	}
}

// get answers for the names, or for all nodes when there are none.
func (t *Testbed) get(input json.RawMessage) (object, error) {
	var q struct {
		Names []string `json:"names"`
	}
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("the input of get cannot be read: %w", err)
	}
	if len(q.Names) > maxNames {
		return nil, fmt.Errorf("the input of get has %d names, at most %d can be", len(q.Names), maxNames)
	}
	resources := []provider.Resource{}
	if len(q.Names) == 0 {
		for _, l := range t.all() {
			resources = append(resources, l.report())
		}
	}
	for _, name := range q.Names {
		if l := t.life(name); l != nil {
			resources = append(resources, l.report())
		} else {
			resources = append(resources, provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent})
		}
	}
	return object{"resources": resources}, nil
}

// report is what get says of the node.
func (l *life) report() provider.Resource {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return provider.Resource{provider.AttrName: l.id, provider.AttrEnsure: provider.Absent}
	}
	r := l.rec.Asked.attributes()
	r[provider.AttrName] = l.id
	r[provider.AttrState] = l.state
	if l.message != "" {
		r[provider.AttrMessage] = l.message
	}
	r[provider.AttrHostKeys] = []string{l.rec.HostKey}
	if l.open {
		login, proxy := l.t.published(doorName(l.rec.Asked.Hostname, l.id), l.rec.Port)
		r[provider.AttrLogin] = login
		if proxy != "" {
			r[provider.AttrProxy] = proxy
		}
	}
	return r
}
